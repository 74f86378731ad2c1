"""Compute the position biases of MEGA's attention, and cache keys and values of its streams."""

import numpy as np
from keras import ops

from keras_permix.ops.reference.linear import toeplitz


def key_positions(position, size, new):
    """Return positions of the tokens in `size` slots and of `new` more; empty slots are below 0.

    Args:
        position: Number of earlier tokens, an integer or an integer tensor.
        size: Number of slots, the tokens of a chunk.
        new: Number of new tokens, at most `size`.

    Returns:
        An int32 tensor of shape (size + new,).
    """
    position = ops.convert_to_tensor(position, "int32")
    follow = position + ops.arange(new, dtype="int32")
    return ops.concatenate([_held(position, size), follow])


def seen_keys(positions, new):
    """Return the mask of keys that the last `new` of the tokens at `positions` attend to.

    Returns:
        Booleans (new, tokens), True at keys of the same chunk that are not later.
    """
    size = positions.shape[0] - new
    queries = positions[size:, None]
    return ops.logical_and(positions <= queries, positions // size == queries // size)


def renewed(cached, following, positions):
    """Return the cache after more tokens.

    Args:
        cached, following: Tensors of shape (batch, size or new, channels).
        positions: `key_positions` of both.

    Returns:
        A tensor like `cached`.
    """
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


# `…_between` returns the bias between any queries and keys, the others that of one sequence.


def simple_bias(table, tokens):
    """Return one learned bias per distance: `out[i, j] = table[max_tokens - 1 + j - i]`.

    Args:
        table: Tensor of shape (2 * max_tokens - 1,).
        tokens: Number of tokens, at most `max_tokens`.

    Returns:
        A tensor of shape (tokens, tokens).
    """
    middle = (table.shape[0] - 1) // 2
    return toeplitz(table[middle - tokens + 1 : middle + tokens])


def simple_bias_between(table, queries, keys):
    """Return `simple_bias` (queries, keys) between positions, given as integer tensors."""
    middle = (table.shape[0] - 1) // 2
    return ops.take(table, middle + keys - queries[:, None])


def rotary_bias(a, b, tokens):
    """Return products of two vectors rotated by their positions: `out[i, j] = <R_i a, R_j b>`.

    A vector of width z is rotated in z / 2 planes, spanned by its two halves, by the angles
    `position * 10000 ** (-m / (z / 2))` for m = 0 … z / 2 - 1.

    Args:
        a, b: Tensors of shape (width,), with an even width.
        tokens: Number of tokens.

    Returns:
        A float32 tensor of shape (tokens, tokens).
    """
    positions = ops.arange(tokens)
    return rotary_bias_between(a, b, positions, positions)


def rotary_bias_between(a, b, queries, keys):
    """Return `rotary_bias` (queries, keys) between positions, given as integer tensors."""
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
