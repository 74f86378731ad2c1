"""Test exported models."""
