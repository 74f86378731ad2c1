"""Compute the position biases of MEGA's attention, and cache keys and values of its streams."""

import numpy as np
from keras import ops

from keras_permix.ops.reference.linear import toeplitz


def key_positions(position, size, new):
    """Return the positions (size + new,) of cached tokens and of new ones; empty slots are below 0.

    The cache has a slot for each of the `size` tokens of a chunk. `position` is the number of
    earlier tokens, and `new` is at most `size`.
    """
    position = ops.convert_to_tensor(position, "int32")
    follow = position + ops.arange(new, dtype="int32")
    return ops.concatenate([_held(position, size), follow])


def seen_keys(positions, new):
    """Return the mask (new, tokens) of keys of the same chunk that are not later than a query."""
    size = positions.shape[0] - new
    queries = positions[size:, None]
    return ops.logical_and(positions <= queries, positions // size == queries // size)


def renewed(cached, following, positions):
    """Return the cache (batch, size, channels) after more tokens; `positions` are those of both."""
    size, new = cached.shape[1], following.shape[1]
    first = positions[size]
    held = _held(first + new, size)
    slots = ops.arange(size, dtype="int32")
    index = ops.where(held < first, slots, size + held - first)
    return ops.take(ops.concatenate([cached, following], axis=1), index, axis=1)


def _held(position, size):
    """Return the positions of the tokens in the slots after `position` tokens."""
    latest = position - 1
    return latest - (latest - ops.arange(size, dtype="int32")) % size


def simple_bias(table, tokens):
    """Return one learned bias per distance: `out[i, j] = table[max_tokens - 1 + j - i]`.

    The table has the shape (2 * max_tokens - 1,).
    """
    middle = (table.shape[0] - 1) // 2
    return toeplitz(table[middle - tokens + 1 : middle + tokens])


def simple_bias_between(table, queries, keys):
    """Return `simple_bias` (queries, keys) between positions, given as integer tensors."""
    middle = (table.shape[0] - 1) // 2
    return ops.take(table, middle + keys - queries[:, None])


def rotary_bias(a, b, queries, keys):
    """Return products of two vectors rotated by their positions: `out[i, j] = <R_i a, R_j b>`.

    A vector of width z is rotated in z / 2 planes, spanned by its two halves, by the angles
    `position * 10000 ** (-m / (z / 2))` for m = 0 … z / 2 - 1.
    """
    return ops.matmul(_rotate(a, queries), ops.transpose(_rotate(b, keys)))


def _rotate(vector, positions):
    """Rotate a vector (width,) by each position: (positions, width)."""
    half = vector.shape[0] // 2
    speeds = ops.convert_to_tensor(10000.0 ** (-np.arange(half) / half), "float32")
    angles = ops.cast(positions, "float32")[:, None] * speeds
    first, second = ops.split(ops.cast(vector, "float32"), 2)
    cosine, sine = ops.cos(angles), ops.sin(angles)
    return ops.concatenate(
        [first * cosine - second * sine, second * cosine + first * sine], axis=-1
    )
