"""Attention, with a softmax and without."""
