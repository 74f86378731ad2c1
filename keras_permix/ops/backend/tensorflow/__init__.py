"""Implement ops in TensorFlow."""
