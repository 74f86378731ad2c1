"""Which implementation serves a call."""
