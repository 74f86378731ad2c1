"""What a model becomes outside of Keras."""
