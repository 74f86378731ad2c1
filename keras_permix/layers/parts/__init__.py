"""Share helpers of layers; private to this package."""
