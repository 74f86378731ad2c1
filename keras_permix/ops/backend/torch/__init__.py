"""Implement ops in PyTorch."""
