"""Define attention layers, with and without a softmax."""
