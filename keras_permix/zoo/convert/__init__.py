"""Convert weights of other libraries."""
