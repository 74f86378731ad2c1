"""Share helpers of the reference implementations, written in `keras.ops`."""
