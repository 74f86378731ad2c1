"""Select the implementation of an op."""
