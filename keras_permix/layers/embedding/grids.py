"""Resize weights and shift steps to another grid of patches."""

import numpy as np
from keras import ops


def nearest(old, new):
    """Return the index of the nearest of `old` positions for each of `new` positions."""
    return (2 * np.arange(new) + 1) * old // (2 * new)


def nearest_on_grid(old, new):
    """Return the nearest positions on a square of side `old`, in row order."""
    positions = nearest(old, new)
    return (positions[:, None] * old + positions).ravel()


def copy(weights, positions, axis, summed=False):
    """Take the entries `positions` of an axis; if `summed`, divide each by its number of copies."""
    copied = ops.take(weights, positions, axis=axis)
    return _share(copied, np.bincount(positions)[positions], axis) if summed else copied


def merge(weights, positions, axis, summed=False):
    """Undo `copy`: return the mean or, if `summed`, the sum of the copies of each entry."""
    rows = ops.moveaxis(ops.convert_to_tensor(weights), axis, 0)
    merged = ops.segment_sum(rows, positions, num_segments=positions.max() + 1)
    merged = ops.moveaxis(merged, 0, axis)
    return merged if summed else _share(merged, np.bincount(positions), axis)


def _share(weights, counts, axis):
    """Divide the entries of an axis by `counts`."""
    shape = [-1 if index == axis else 1 for index in range(len(weights.shape))]
    return weights / ops.convert_to_tensor(counts.reshape(shape), weights.dtype)


def resize(weights, old, new, axis, summed=False, near=nearest_on_grid):
    """Resize an axis of positions from sides `old` to `new`; `near` returns the nearest ones."""
    if new < old:
        return merge(weights, near(new, old), axis, summed)
    return copy(weights, near(old, new), axis, summed)


def resize_head(kernel, old, new):
    """Resize the kernel `(old * old * features, units)` of a dense layer on all tokens."""
    features = kernel.shape[0] // old**2
    kernel = ops.reshape(kernel, (old**2, features, kernel.shape[1]))
    resized = resize(kernel, old, new, axis=0, summed=True)
    return ops.reshape(resized, (new**2 * features, kernel.shape[2]))


def resize_dense(weights, shape, old, new):
    """Resize a kernel `(…, inputs, outputs)` or a bias of a layer along the tokens to `shape`.

    An axis whose size is the number of patches is resized as a grid. Other axes, such as hidden
    units, are resized by index.
    """
    for axis, (had, needed) in enumerate(zip(tuple(weights.shape), shape, strict=True)):
        summed = axis == len(shape) - 2
        if had == old**2 and needed == new**2:
            weights = resize(weights, old, new, axis, summed)
        elif had != needed:
            weights = resize(weights, had, needed, axis, summed, nearest)
    return weights


def resize_steps(steps, before, after, extra=0):
    """Scale shift steps from one grid (rows, columns) to another, with `extra` tokens before each.

    A step along tokens in row order stands for several moves by rows and columns. On 8 x 8 tokens,
    63 is 7 rows down and 7 columns to the right, or one column to the left. The shortest move is
    used, so that neighbors stay neighbors. Rows and columns are scaled by the ratio of the grids
    and rounded, halves to even.
    """
    tokens, new_tokens = (rows * columns + extra for rows, columns in (before, after))
    steps = np.array([int(step) % tokens for step in steps])
    steps = np.where(steps > tokens // 2, steps - tokens, steps)  # the shorter direction
    return (_resized(steps, before, after) % new_tokens).tolist()


def resize_delays(delays, before, after, least=0):
    """Scale delays like the steps of `resize_steps`, without wrapping, to at least `least`."""
    return np.maximum(_resized(np.array(delays), before, after), least).tolist()


def resize_distances(before, after):
    """Return the distance on an old grid for each distance, in ascending order, on a new grid."""
    tokens, new_tokens = (rows * columns for rows, columns in (before, after))
    distances = _resized(np.arange(1 - new_tokens, new_tokens), after, before)
    return np.clip(distances, 1 - tokens, tokens - 1)


def _resized(steps, before, after):
    (rows, columns), (new_rows, new_columns) = before, after
    down = (2 * abs(steps) + columns - 1) // (2 * columns) * np.sign(steps)  # the nearest row
    right = steps - down * columns
    down, right = np.rint(down * new_rows / rows), np.rint(right * new_columns / columns)
    return (down * new_columns + right).astype("int64")
