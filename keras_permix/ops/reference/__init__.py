"""What the references share, in `keras.ops`."""
