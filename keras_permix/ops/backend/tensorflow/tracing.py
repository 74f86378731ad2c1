"""Whether TensorFlow runs a call or writes it down."""

import tensorflow as tf


def has_data(x):
    """Whether `x` holds numbers now, on whatever device."""
    return tf.is_tensor(x) and hasattr(x, "numpy")
