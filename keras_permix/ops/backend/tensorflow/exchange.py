"""Swap the maximum of every channel with its first token, in TensorFlow."""

from functools import partial

import tensorflow as tf

from keras_permix.ops.backend.tensorflow.keys import to_ranks
from keras_permix.ops.backend.tensorflow.linear import linear
from keras_permix.ops.backend.tensorflow.packing import take
from keras_permix.ops.backend.tensorflow.runtime import at_home, compiled


def max_exchange(x, mask):
    with at_home(x):
        mask = None if mask is None else tf.cast(mask, "bool")[:, :, None]
        first, winner = _find(tf.stop_gradient(x), mask)
        exchange = partial(_exchange, first=first, winner=winner, mask=mask)
        return linear(exchange, exchange)(x)


@compiled
def _find(x, mask):
    """Return the first real token and the first maximum, both (batch, 1, channels)."""
    rank, first = to_ranks(x), tf.zeros_like(x[:, :1], "int32")
    if mask is not None:
        # Padding repeats the first real token, and padding before that token cannot win.
        first += _first(mask)
        rank = tf.where(mask, rank, to_ranks(_take(x, first)))
    winner = _first(rank == tf.reduce_max(rank, axis=1, keepdims=True))
    return first, tf.maximum(winner, first)


def _first(marked):
    """Return the first marked token, or the number of tokens."""
    tokens = tf.shape(marked)[1]
    positions = tf.where(marked, tf.range(tokens)[None, :, None], tokens)
    return tf.reduce_min(positions, axis=1, keepdims=True)


def _take(x, token):
    return take(x, tf.minimum(token, tf.shape(x)[1] - 1))


@compiled
def _exchange(x, first, winner, mask):
    position = tf.range(tf.shape(x)[1])[None, :, None]
    start, top = _take(x, first), _take(x, winner)
    out = tf.where(position == first, top, tf.where(position == winner, start, x))
    out = out if mask is None else tf.where(mask, out, tf.zeros_like(out))
    return tf.ensure_shape(out, x.shape)
