"""Shift steps and distances on a grid of patches, carried over to another grid."""

import numpy as np


def resize_steps(steps, before, after, extra=0):
    """Scale shift steps as moves on a grid, as an image is resized.

    Along tokens in rows, a step stands for several moves by rows and columns: on 8 x 8 tokens, 63
    is 7 rows down and 7 columns to the right, or one column to the left. It is read as the
    shortest, so that neighbors stay neighbors and opposite steps opposite. Rows and columns are
    then scaled by the ratio of the grids, and rounded, halves to even.

    Args:
        steps: One integer per channel, of any sign and size.
        before, after: (rows, columns) of the grid that the steps are for, and of the new one.
        extra: Tokens in front of the grid, such as a class token, the same in both.

    Returns:
        A list of integers from 0 to the new number of tokens - 1, one per channel.

    Example:

    >>> from keras_permix.layers.mixing.resize_steps import resize_steps
    >>> resize_steps([0, 1, 8, 7, 63], before=(8, 8), after=(16, 16))
    [0, 2, 32, 30, 254]
    """
    tokens, new_tokens = (rows * columns + extra for rows, columns in (before, after))
    steps = np.array([int(step) % tokens for step in steps])
    steps = np.where(steps > tokens // 2, steps - tokens, steps)  # the shorter way around
    return (_resized(steps, before, after) % new_tokens).tolist()


def resize_delays(delays, before, after, least=0):
    """Scale delays as `resize_steps` does steps, but never around the end, nor below the `least`.

    Example:

    >>> from keras_permix.layers.mixing.resize_steps import resize_delays
    >>> resize_delays([1, 8, 63], before=(8, 8), after=(16, 16), least=1)
    [2, 32, 254]
    """
    return np.maximum(_resized(np.array(delays), before, after), least).tolist()


def resize_distances(before, after):
    """For every distance of two tokens on a grid, the one that stands for it on the grid before.

    Distances are read and scaled as `resize_delays` does delays.

    Args:
        before, after: (rows, columns) of the grid whose distances are known, and of the new one.

    Returns:
        Integers of shape (2 * new tokens - 1,), for distances from the most negative on.

    Example:

    >>> from keras_permix.layers.mixing.resize_steps import resize_distances
    >>> resize_distances(before=(1, 3), after=(1, 5)).tolist()
    [-2, -2, -1, -1, 0, 1, 1, 2, 2]
    """
    tokens, new_tokens = (rows * columns for rows, columns in (before, after))
    distances = _resized(np.arange(1 - new_tokens, new_tokens), after, before)
    return np.clip(distances, 1 - tokens, tokens - 1)


def _resized(steps, before, after):
    (rows, columns), (new_rows, new_columns) = before, after
    down = (2 * abs(steps) + columns - 1) // (2 * columns) * np.sign(steps)  # the nearest row
    right = steps - down * columns
    down, right = np.rint(down * new_rows / rows), np.rint(right * new_columns / columns)
    return (down * new_columns + right).astype("int64")
