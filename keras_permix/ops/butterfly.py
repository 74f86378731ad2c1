"""Count butterfly stages, and gather the members of their blocks along an axis."""

from operator import index

from keras import ops

from keras_permix._typing import Tensor
from keras_permix.ops.dispatch.checks import as_tensor
from keras_permix.ops.dispatch.dispatch import dispatch, op
from keras_permix.utils.checks import check_integer


def butterfly_stages(size: int, block: int) -> int:
    """Count the butterfly stages that connect every entry with every other entry.

    Stage `i` mixes blocks of `block` entries that are `min(block**i, size // block)` apart. The
    count is the smallest `n` with `block**n >= size`.

    Args:
        size: Entries along the mixed axis.
        block: Entries per block, at least 2. It must divide `size`.

    Returns:
        A Python integer.

    Raises:
        ValueError: for a block that does not divide the size, or a stage whose blocks do not fill
            it.

    Example:
        >>> from keras_permix.ops import butterfly_stages
        >>> butterfly_stages(64, 8), butterfly_stages(125, 5), butterfly_stages(8, 4)
        (2, 3, 2)

    Reference: Sapkota & Bhattarai, "Dimension Mixer", 2023, arXiv:2311.18735.
    """
    size, block = check_block(size, block)
    count = 0
    while block**count < size:
        butterfly_stride(size, block, count)
        count += 1
    return count


def two_stage_block(size: int) -> int:
    """Return the smallest block with which at most two stages mix all entries."""
    divisors = (block for block in range(2, size) if size % block == 0)
    return next((block for block in divisors if block**2 >= size), size)


def butterfly_stride(size, block, stage):
    """Return the distance between the members of a block in `stage`."""
    stage = check_integer("stage", stage, least=0)
    stride = min(block**stage, size // block)
    if size % (block * stride):
        rule = f"`block` * {stride}, the stride of stage {stage}, must divide the size."
        raise ValueError(f"{rule} Received: {size=}, {block=}, {stage=}")
    return stride


def check_block(size, block):
    """Return `size` and `block` as integers, if blocks fill the size."""
    size, block = check_integer("size", size), check_integer("block", block, least=2)
    if size % block:
        raise ValueError(f"`block` must divide the size. Received: {size=}, {block=}")
    return size, block


@op
def butterfly_permute(
    x: Tensor,
    block: int,
    stage: int,
    *,
    axis: int,
    cyclic: bool = False,
    implementation: str | None = None,
) -> Tensor:
    """Order an axis so that the entries of each block of a butterfly stage become adjacent.

    The entries of a block are `stride = min(block**stage, size // block)` apart; stage 0 is the
    identity. The gradient is the inverse, `butterfly_unpermute`.

    Args:
        x: Tensor of any shape and dtype.
        block: Entries per block, at least 2. It must divide the size of `axis`.
        stage: Index of the stage, from 0.
        axis: The axis to permute.
        cyclic: Whether stages wrap around after the last stage of `butterfly_stages`. If False,
            later stages equal the last one.
        implementation: A name that `explain` lists. None selects the first that supports the call.

    Returns:
        A tensor like `x`.

    Raises:
        ValueError: for an axis that `x` does not have, a block that does not divide its size, or
            a stage whose blocks do not fill it.

    Example:
        >>> import keras
        >>> from keras_permix.ops import butterfly_permute
        >>> x = keras.ops.arange(8)
        >>> keras.ops.convert_to_numpy(butterfly_permute(x, 4, 1, axis=0)).tolist()
        [0, 2, 4, 6, 1, 3, 5, 7]

    Reference: Sapkota & Bhattarai, "Dimension Mixer", 2023, arXiv:2311.18735.
    """
    x, options = _options(x, block, stage, axis, cyclic, implementation)
    return dispatch("butterfly_permute", butterfly_permute_reference, x, **options)


@op
def butterfly_unpermute(
    x: Tensor,
    block: int,
    stage: int,
    *,
    axis: int,
    cyclic: bool = False,
    implementation: str | None = None,
) -> Tensor:
    """Undo `butterfly_permute`.

    Args:
        x: Tensor of any shape and dtype.
        block, stage, axis, cyclic: See `butterfly_permute`.
        implementation: A name that `explain` lists. None selects the first that supports the call.

    Returns:
        A tensor like `x`.

    Raises:
        ValueError: as `butterfly_permute`.

    Example:
        >>> import keras
        >>> from keras_permix.ops import butterfly_unpermute
        >>> x = keras.ops.array([0, 2, 4, 6, 1, 3, 5, 7])
        >>> keras.ops.convert_to_numpy(butterfly_unpermute(x, 4, 1, axis=0)).tolist()
        [0, 1, 2, 3, 4, 5, 6, 7]

    Reference: Sapkota & Bhattarai, "Dimension Mixer", 2023, arXiv:2311.18735.
    """
    x, options = _options(x, block, stage, axis, cyclic, implementation)
    return dispatch("butterfly_unpermute", butterfly_unpermute_reference, x, **options)


def _options(x, block, stage, axis, cyclic, implementation):
    """Return `x` as a tensor, and the options for `dispatch`."""
    x = as_tensor(x)
    rank = len(x.shape)
    if axis not in range(-rank, rank):
        raise ValueError(f"`axis` must be one of `x`. Received: {axis=}, shape={tuple(x.shape)}")
    axis %= rank
    size, block = check_block(block if x.shape[axis] is None else x.shape[axis], block)
    butterfly_stride(size, block, stage)
    options = dict(block=block, stage=index(stage), axis=axis, cyclic=bool(cyclic))
    return x, {**options, "implementation": implementation}


def butterfly_permute_reference(x, mask, *, axis, block, **stage):
    return exchange(x, block, _stride(x.shape[axis], ops.shape(x)[axis], block, **stage), axis)


def butterfly_unpermute_reference(x, mask, *, axis, block, **stage):
    return exchange(x, _stride(x.shape[axis], ops.shape(x)[axis], block, **stage), block, axis)


def exchange(x, rows, columns, axis):
    """Cut `axis` into matrices of `rows` times `columns` entries, and transpose each."""
    if isinstance(columns, int) and columns == 1 or isinstance(rows, int) and rows == 1:
        return ops.copy(x)
    shape = ops.shape(x)
    before, size, behind = shape[:axis], shape[axis], shape[axis + 1 :]
    cut = ops.reshape(x, (*before, size // (rows * columns), rows, columns, *behind))
    return ops.reshape(ops.swapaxes(cut, axis + 1, axis + 2), shape)


def _stride(known, size, block, stage, cyclic):
    """Return the distance between the members of a block; `known` is None for a dynamic size."""
    if known is not None:
        stage = stage % butterfly_stages(known, block) if cyclic else stage
        return butterfly_stride(known, block, stage)
    power = min(block**stage, 2**31 - 1)
    if cyclic:
        powers = [block**stage for stage in range(31) if block**stage < 2**31]
        powers = ops.convert_to_tensor(powers, "int32")
        stages = ops.sum(ops.cast(ops.less(powers, size), "int32"))
        power = ops.take(powers, stage % stages)
    return ops.minimum(power, size // block)
