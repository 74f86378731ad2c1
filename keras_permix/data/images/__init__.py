"""Load, generate and augment images."""
