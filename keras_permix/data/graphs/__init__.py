"""Graphs as padded arrays."""
