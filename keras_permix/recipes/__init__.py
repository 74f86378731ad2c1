"""Define, find and read recipes, TOML files of the values that train a preset."""
