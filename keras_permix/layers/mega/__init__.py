"""Define the layers of MEGA: moving averages and gated attention."""
