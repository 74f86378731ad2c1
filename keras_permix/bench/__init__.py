"""Measurements: operators, layers and models against attention."""
