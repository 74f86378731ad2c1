"""The maximum of every channel exchanged with its first token, in TensorFlow."""

from functools import partial

import tensorflow as tf

from keras_permix.ops.backend.tensorflow.keys import to_ranks
from keras_permix.ops.backend.tensorflow.linear import at_home, compiled, linear
from keras_permix.ops.backend.tensorflow.packing import take


def max_exchange(x, mask):
    if 0 in x.shape[:2]:
        return tf.identity(x)
    with at_home(x):
        mask = None if mask is None else tf.cast(mask, "bool")[:, :, None]
        first, winner = _find(tf.stop_gradient(x), mask)
        exchange = partial(_exchange, first=first, winner=winner, mask=mask)
        return linear(exchange, exchange)(x)


@compiled
def _find(x, mask):
    """The first real token and the first of the greatest, both (batch, 1, channels)."""
    rank, tokens = to_ranks(x), tf.shape(x)[1]
    place = tf.range(tokens)[None, :, None]
    real = tf.ones_like(place, "bool") if mask is None else mask

    def first(real):
        return tf.reduce_min(tf.where(real, place, tokens), axis=1, keepdims=True)

    top = tf.reduce_max(tf.where(real, rank, rank.dtype.min), axis=1, keepdims=True)
    winner = first(real & (rank == top))
    return first(real) + tf.zeros_like(winner), winner


@compiled
def _exchange(x, first, winner, mask):
    tokens = tf.shape(x)[1]
    place = tf.range(tokens)[None, :, None]
    start, top = (take(x, tf.minimum(token, tokens - 1)) for token in (first, winner))
    out = tf.where(place == first, top, tf.where(place == winner, start, x))
    out = out if mask is None else tf.where(mask, out, tf.zeros_like(out))
    return tf.ensure_shape(out, x.shape)
