"""Presets: folders of configuration, weights and records, found by name, path or handle."""
