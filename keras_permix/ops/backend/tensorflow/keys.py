"""Numbers as integers of the same order, in TensorFlow."""

import tensorflow as tf

xor = tf.bitwise.bitwise_xor


def to_key(x):
    """Signed integers in the order of the values; -0.0 comes before 0.0."""
    if x.dtype.is_floating:
        return _mirror_negatives(tf.bitcast(x, f"int{8 * x.dtype.size}"))
    return tf.cast(x, f"int{16 * x.dtype.size}") if x.dtype.is_unsigned else x


def from_key(key, dtype):
    if dtype.is_floating:
        return tf.bitcast(_mirror_negatives(key), dtype)
    return tf.cast(key, dtype)


def is_minus_zero(key, dtype):
    return (key == -1) & dtype.is_floating


def _mirror_negatives(bits):
    """Negative floats ascend as their integers descend; the mapping is its own inverse."""
    sign = tf.bitwise.right_shift(bits, tf.constant(8 * bits.dtype.size - 1, bits.dtype))
    return xor(bits, tf.bitwise.bitwise_and(sign, tf.constant(bits.dtype.max, bits.dtype)))
