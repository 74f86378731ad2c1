"""Layers that mix tokens by permuting them."""
