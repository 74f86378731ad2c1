"""Weights that others have trained, as those of our models."""
