"""Compute the strides and number of butterfly stages, and whether they mix everything."""

from collections.abc import Iterable

import numpy as np

from keras_permix.utils.checks import check_integer


def butterfly_stages(size: int, block: int) -> int:
    """Count the butterfly stages that let every entry reach every other one.

    Stage `i` mixes blocks of `block` entries that lie `min(block**i, size // block)` apart. The
    count is the smallest `n` with `block**n >= size`.

    Args:
        size: Entries along the mixed axis.
        block: Entries per block, at least 2; it divides `size`.

    Returns:
        A Python integer.

    Raises:
        ValueError: for a block that does not divide the size, and for a stage whose blocks do not
            fill it.

    Example:

    >>> from keras_permix.ops import butterfly_stages
    >>> butterfly_stages(64, 8), butterfly_stages(125, 5), butterfly_stages(8, 4)
    (2, 3, 2)

    Reference:
        Sapkota and Bhattarai, "Dimension Mixer: A Generalized Method for Structured Sparsity in
        Deep Neural Networks", 2023, arXiv:2311.18735.
    """
    size, block = check_block(size, block)
    count = 0
    while block**count < size:
        butterfly_stride(size, block, count)
        count += 1
    return count


def butterfly_mixes(size: int, block: int, stages: Iterable[int] | None = None) -> bool:
    """Return whether consecutive butterfly stages connect every input with every output.

    Args:
        size: Entries along the mixed axis.
        block: Entries per block, at least 2; it divides `size`.
        stages: Stages in order. None uses the number from `butterfly_stages`.

    Returns:
        A Python boolean.

    Raises:
        ValueError: for sizes, blocks or stages that do not fit.

    Example:

    >>> from keras_permix.ops import butterfly_mixes
    >>> butterfly_mixes(64, 8), butterfly_mixes(64, 8, [0, 0]), butterfly_mixes(64, 8, [1, 0])
    (True, False, True)

    Reference:
        Sapkota and Bhattarai, "Dimension Mixer: A Generalized Method for Structured Sparsity in
        Deep Neural Networks", 2023, arXiv:2311.18735, appendix C.
    """
    count = butterfly_stages(size, block)
    blocks = size // block
    connected: np.ndarray  # (blocks of the first stage, blocks of a stage)
    reached: np.ndarray | None = None  # the same for each entry
    for stage in range(count) if stages is None else stages:
        order = butterfly_order(size, block, stage)
        if reached is None:
            connected = np.eye(blocks, dtype=bool)
        else:
            connected = np.any(reached[:, order].reshape(blocks, blocks, block), axis=2)
        reached = np.empty((blocks, size), bool)
        reached[:, order] = np.repeat(connected, block, axis=1)
    return reached is not None and bool(reached.all())


def two_stage_block(size: int) -> int:
    """Return the smallest block with which at most two stages mix everything."""
    divisors = (block for block in range(2, size) if size % block == 0)
    return next((block for block in divisors if block**2 >= size), size)


def butterfly_stride(size, block, stage):
    """Return the distance between the members of a block in `stage`."""
    stage = check_integer("stage", stage, least=0)
    stride = min(block**stage, size // block)
    if size % (block * stride):
        raise ValueError(
            "`block` times the stride of a stage, min(block**stage, size // block), must divide "
            f"the size. Received: size={size}, block={block}, stage={stage} (stride {stride})"
        )
    return stride


def butterfly_order(size, block, stage):
    """Return the entry for each position, block by block: an integer array (size,)."""
    stride = butterfly_stride(size, block, stage)
    return np.arange(size).reshape(-1, block, stride).swapaxes(1, 2).ravel()


def check_block(size, block):
    """Return `size` (which may be unknown) and `block` as integers, if blocks fill the size."""
    size = None if size is None else check_integer("size", size, least=0)
    block = check_integer("block", block, least=2)
    if size is not None and (size < 1 or size % block):
        raise ValueError(f"`block` must divide the size. Received: size={size}, block={block}")
    return size, block
