"""Implementations, one folder per backend; only that of the running backend is imported."""
