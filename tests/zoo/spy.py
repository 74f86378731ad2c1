"""A module that no preset may have imported."""

raise AssertionError("a preset imported this module")
