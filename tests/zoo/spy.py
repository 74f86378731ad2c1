"""Fail on import: loading a preset must not import this module."""

raise AssertionError("a preset imported this module")
