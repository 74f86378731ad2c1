"""Load graphs, and pad them to arrays."""
