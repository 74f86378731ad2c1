"""Embed images and tokens."""
