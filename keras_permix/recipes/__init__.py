"""Recipes: TOML files of values that say how a preset is trained."""
