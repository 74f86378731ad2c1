"""Moving averages, and gated attention over them."""
