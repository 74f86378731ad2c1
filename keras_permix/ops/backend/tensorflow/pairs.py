"""Sort groups of two in TensorFlow, by swapping pairs; residuals mark the swapped pairs."""

import tensorflow as tf

from keras_permix.ops.backend.tensorflow.keys import to_bits, to_ranks, xor


def order(x, length, plan):
    """Sort pairs of tokens, or give them the ranks of channel 0; also return the swapped pairs.

    The first `length` tokens, (batch, 1, 1), are real, or all tokens if it is None. The last of an
    odd number stays.
    """
    pairs = _pairs(to_ranks(x))
    marked = pairs[:, :, 1] < pairs[:, :, 0]
    if plan.aligned:
        marked = marked ^ marked[..., :1]
    if length is None and x.shape[1] % 2:
        length = x.shape[1]
    if length is not None:
        second = 2 * tf.range(tf.shape(marked)[1]) + 1
        marked = marked & (second[:, None] < length)
    return swap(x, marked), marked


def swap(x, marked):
    """Swap the marked pairs. Uses bits, because a ^ (a ^ b) is b."""
    bits = _pairs(to_bits(x))
    change = xor(bits[:, :, 0], bits[:, :, 1])
    change = tf.where(marked, change, tf.zeros_like(change))
    bits = xor(bits, change[:, :, None])
    batch, tokens, channels = tf.unstack(tf.shape(x))
    bits = tf.reshape(bits, (batch, -1, channels))[:, :tokens]
    return tf.bitcast(bits, x.dtype)


def _pairs(x):
    """Cut into pairs, the last padded: (batch, pairs, 2, channels)."""
    batch, tokens, channels = tf.unstack(tf.shape(x))
    if x.shape[1] is None or x.shape[1] % 2:
        x = tf.pad(x, ((0, 0), (0, tokens % 2), (0, 0)))
    return tf.reshape(x, (batch, (tokens + 1) // 2, 2, channels))
