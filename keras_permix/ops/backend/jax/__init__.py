"""Implement ops in JAX."""
