"""Shifts, and groups of two, of a whole batch in TensorFlow: no sort is needed.

A shift is a gather by a table known in advance. Pairs are compared and swapped; all that the
gradient needs is which were.
"""

import tensorflow as tf

from keras_permix.ops.backend.plan import shift_places
from keras_permix.ops.backend.tensorflow.keys import is_minus_zero, to_key, xor


def shift(x, steps, back=False):
    """Roll every channel of `x`, (batch, tokens, channels), by its own step."""
    _, tokens, channels = x.shape
    rows = tf.reshape(x, (-1, tokens * channels))
    places = shift_places(steps, tokens, back)
    return tf.reshape(tf.gather(rows, places, axis=1), (-1, tokens, channels))


def order(x, leader):
    """Sort pairs of tokens, or give them the ranks of `leader`; also return which were swapped."""
    marked = _descends(x)
    if leader is not None:
        marked = marked ^ _descends(leader)
    return swap(x, marked), marked


def swap(x, marked):
    """Change the places of the pairs that are marked. As bits, since a ^ (a ^ b) is b."""
    bits = _pairs(x if x.dtype.is_integer else tf.bitcast(x, f"int{8 * x.dtype.size}"))
    change = xor(bits[:, :, 0], bits[:, :, 1])
    change = tf.where(marked, change, tf.zeros_like(change))
    bits = tf.reshape(xor(bits, change[:, :, None]), (-1, *x.shape[1:]))
    return tf.ensure_shape(tf.bitcast(bits, x.dtype), x.shape)


def _descends(x):
    """Which pairs descend. Compared as integers, since XLA takes subnormal floats for zeros."""
    key = to_key(x)
    pairs = _pairs(key + tf.cast(is_minus_zero(key, x.dtype), key.dtype))
    return pairs[:, :, 1] < pairs[:, :, 0]


def _pairs(x):
    _, tokens, channels = x.shape
    return tf.reshape(x, (-1, tokens // 2, 2, channels))
