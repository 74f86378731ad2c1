"""Sort with a bitonic network that XLA compiles."""

from functools import partial
from itertools import groupby

import numpy as np
from keras import backend, ops

CACHE = 1 << 21  # bytes that stay in the cache of a core


def sort(runs, by_blocks):
    """Sort integers (groups, tokens, channels) of a static shape along a power of two of tokens.

    If `by_blocks`, steps within blocks of tokens process one block at a time, so that it stays in
    the cache of a CPU.
    """
    shape = runs.shape
    row = shape[2] * np.dtype(backend.standardize_dtype(runs.dtype)).itemsize
    block = 1 << max(CACHE // row, 1).bit_length() - 1 if by_blocks else shape[1]
    for within, steps in groupby(network(shape[1]), lambda step: step[0] <= block < shape[1]):
        take = partial(_take, steps=tuple(steps))
        if within:
            blocks = ops.reshape(runs, (-1, block, shape[2]))
            one = partial(_take_one, take=take)
            runs = ops.reshape(ops.fori_loop(0, blocks.shape[0], one, blocks), shape)
        else:
            runs = take(runs)
    return runs


def _take_one(number, blocks, take):
    """Update block `number` by `take`; a map would return another copy of all blocks."""
    start = (number, 0, 0)
    return ops.slice_update(blocks, start, take(ops.slice(blocks, start, (1, *blocks.shape[1:]))))


def network(length):
    """Yield the steps of the network for `length` positions, a power of two.

    A step is (size, parts, flip). It cuts the positions into blocks of `size` and compares each
    position of a block's first half with one of its second half, reversed if `flip`. With 4
    `parts`, it then compares within both halves, not reversed, so that two stages take one pass
    through memory.
    """
    level = 2
    while level <= length:
        size = level
        while size > 1:
            parts = min(size, 4)
            yield size, parts, size == level
            size //= parts
        level *= 2


def _take(runs, steps):
    for size, parts, flip in steps:
        blocks = ops.reshape(runs, (runs.shape[0], -1, parts, size // parts, runs.shape[2]))
        blocks = [blocks[:, :, part] for part in range(parts)]
        first, second = blocks[: parts // 2], blocks[parts // 2 :]
        second = _backwards(second) if flip else second
        low, high = _compare(first, second)
        high = _backwards(high) if flip else high
        if parts == 4:
            low, high = ([ops.minimum(*half), ops.maximum(*half)] for half in (low, high))
        runs = ops.reshape(ops.stack(low + high, axis=2), runs.shape)
    return runs


def _backwards(parts):
    return [ops.flip(part, axis=2) for part in parts[::-1]]


def _compare(first, second):
    low = [ops.minimum(*pair) for pair in zip(first, second, strict=True)]
    return low, [ops.maximum(*pair) for pair in zip(first, second, strict=True)]
