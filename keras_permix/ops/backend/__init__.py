"""Implement ops, in one folder per backend; only that of the current backend is imported."""
