"""Share helpers of the reference implementations, in `keras.ops`."""
