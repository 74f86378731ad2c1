"""Texts: readers, and batches of padded tokens."""
