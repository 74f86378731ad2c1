"""Position biases of MEGA's attention, and the cache of keys and values of its streams."""

import numpy as np
from keras import ops

from keras_permix.ops.reference.linear import toeplitz


def key_places(position, size, new):
    """Return positions of the tokens in `size` slots and of `new` more; empty slots are below 0.

    Args:
        position: Number of earlier tokens, an integer or an integer tensor.
        size: Slots, the tokens of a chunk.
        new: Number of new tokens, at most `size`.

    Returns:
        An int32 tensor of shape (size + new,).
    """
    position = ops.convert_to_tensor(position, "int32")
    follow = position + ops.arange(new, dtype="int32")
    return ops.concatenate([_held(position, size), follow])


def seen_keys(places, new):
    """Return the keys that the last `new` of the tokens at `places` attend to.

    Returns:
        Booleans (new, tokens): those of the same chunk that are not later.
    """
    size = places.shape[0] - new
    queries = places[size:, None]
    return ops.logical_and(places <= queries, places // size == queries // size)


def renewed(cached, following, places):
    """The cache after the tokens that follow.

    Args:
        cached, following: Tensors of shape (batch, size or new, channels).
        places: `key_places` of both.

    Returns:
        A tensor like `cached`.
    """
    size, new = cached.shape[1], following.shape[1]
    first = places[size]
    held = _held(first + new, size)
    slots = ops.arange(size, dtype="int32")
    index = ops.where(held < first, slots, size + held - first)
    return ops.take(ops.concatenate([cached, following], axis=1), index, axis=1)


def _held(position, size):
    """Places of the tokens that the slots hold after `position` tokens."""
    latest = position - 1
    return latest - (latest - ops.arange(size, dtype="int32")) % size


# `…_between` is the bias of any queries and keys, and the other function that of all of a sequence.


def simple_bias(table, tokens):
    """One learned bias per distance: `out[i, j] = table[max_tokens - 1 + j - i]`.

    Args:
        table: Tensor of shape (2 * max_tokens - 1,).
        tokens: How many, at most `max_tokens`.

    Returns:
        A tensor of shape (tokens, tokens).
    """
    middle = (table.shape[0] - 1) // 2
    return toeplitz(table[middle - tokens + 1 : middle + tokens])


def simple_bias_between(table, queries, keys):
    """`simple_bias` of tokens at some places, integer tensors: (queries, keys)."""
    middle = (table.shape[0] - 1) // 2
    return ops.take(table, middle + keys - queries[:, None])


def rotary_bias(a, b, tokens):
    """Products of two learned vectors, each rotated by its place: `out[i, j] = <R_i a, R_j b>`.

    A vector of width z is rotated in z / 2 planes, which its two halves span, by the angles
    `place * 10000 ** (-m / (z / 2))` for m = 0 … z / 2 - 1.

    Args:
        a, b: Tensors of shape (width,), the width even.
        tokens: How many.

    Returns:
        A float32 tensor of shape (tokens, tokens).
    """
    places = ops.arange(tokens)
    return rotary_bias_between(a, b, places, places)


def rotary_bias_between(a, b, queries, keys):
    """`rotary_bias` of tokens at some places, integer tensors: (queries, keys)."""
    return ops.matmul(_rotate(a, queries), ops.transpose(_rotate(b, keys)))


def _rotate(vector, places):
    """A vector (width,) as it is rotated at each of some places: (places, width)."""
    half = vector.shape[0] // 2
    speeds = ops.convert_to_tensor(10000.0 ** (-np.arange(half) / half), "float32")
    angles = ops.cast(places, "float32")[:, None] * speeds
    first, second = ops.split(ops.cast(vector, "float32"), 2)
    cosine, sine = ops.cos(angles), ops.sin(angles)
    return ops.concatenate(
        [first * cosine - second * sine, second * cosine + first * sine], axis=-1
    )
