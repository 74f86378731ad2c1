"""Convert numbers to integers of the same order, in TensorFlow.

Values are compared as integers, because XLA treats subnormal floats as zeros.
"""

import tensorflow as tf

xor = tf.bitwise.bitwise_xor


def to_key(x):
    """Return signed integers in the order of the values; -0.0 comes before 0.0."""
    if x.dtype.is_unsigned:
        key = tf.bitcast(x, x.dtype.name.removeprefix("u"))
        return xor(key, key.dtype.min)
    return _mirror_negatives(to_bits(x)) if x.dtype.is_floating else x


def from_key(key, dtype):
    if dtype.is_unsigned:
        return tf.bitcast(xor(key, key.dtype.min), dtype)
    return tf.bitcast(_mirror_negatives(key), dtype) if dtype.is_floating else key


def to_ranks(x):
    """Return `to_key`, but with -0.0 equal to 0.0, which cannot be inverted."""
    key = to_key(x)
    return key + tf.cast(is_minus_zero(key, x.dtype), key.dtype)


def is_minus_zero(key, dtype):
    return (key == -1) & dtype.is_floating


def to_bits(x):
    """Return the bits of numbers as integers."""
    return x if x.dtype.is_integer else tf.bitcast(x, f"int{8 * x.dtype.size}")


def _mirror_negatives(bits):
    """Reverse the order of the bits of negative floats; the mapping is its own inverse."""
    sign = tf.bitwise.right_shift(bits, 8 * bits.dtype.size - 1)
    return xor(bits, tf.bitwise.bitwise_and(sign, bits.dtype.max))
