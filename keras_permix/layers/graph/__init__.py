"""Graphormer, with attention or sorting."""
