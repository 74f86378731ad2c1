"""Gather the members of each butterfly block along an axis, and undo it."""

from operator import index

from keras import ops

from keras_permix._typing import Tensor
from keras_permix.ops.butterfly_stages import butterfly_stages, butterfly_stride, check_block
from keras_permix.ops.dispatch.dispatch import dispatch
from keras_permix.ops.dispatch.node import is_symbolic, op
from keras_permix.utils.checks import check_integer


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
    """Order an axis so that the blocks of a butterfly stage become runs of consecutive entries.

    The members of a block lie `stride = min(block**stage, size // block)` entries apart; stage 0
    is the identity. Only `axis` is permuted. The gradient is the inverse, `butterfly_unpermute`.

    Args:
        x: Tensor of any shape and dtype.
        block: Entries per block, at least 2; it divides the size of `axis`.
        stage: 0-based stage.
        axis: The axis to permute.
        cyclic: Whether stages from `butterfly_stages` on restart at 0. False repeats the last one.
        implementation: Name of an implementation, as printed by `explain`. None selects the first
            that supports the call.

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

    Reference:
        Sapkota and Bhattarai, "Dimension Mixer: A Generalized Method for Structured Sparsity in
        Deep Neural Networks", 2023, arXiv:2311.18735.
    """
    x, options = _check(x, block, stage, axis, cyclic)
    return dispatch(
        "butterfly_permute",
        butterfly_permute_reference,
        x,
        implementation=implementation,
        **options,
    )


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
        block: Entries per block, at least 2; it divides the size of `axis`.
        stage, axis, cyclic: As given to `butterfly_permute`.
        implementation: Name of an implementation, as printed by `explain`. None selects the first
            that supports the call.

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

    Reference:
        Sapkota and Bhattarai, "Dimension Mixer: A Generalized Method for Structured Sparsity in
        Deep Neural Networks", 2023, arXiv:2311.18735.
    """
    x, options = _check(x, block, stage, axis, cyclic)
    return dispatch(
        "butterfly_unpermute",
        butterfly_unpermute_reference,
        x,
        implementation=implementation,
        **options,
    )


def _check(x, block, stage, axis, cyclic):
    """Return `x` as a tensor, and the options of the call."""
    x = x if is_symbolic(x) else ops.convert_to_tensor(x)
    rank = len(x.shape)
    axis = check_integer("axis", axis, least=-rank)
    if axis >= rank:
        raise ValueError(
            f"`axis` must be an axis of `x`. Received: axis={axis}, x.shape={tuple(x.shape)}"
        )
    axis %= rank
    size, block = check_block(x.shape[axis], block)
    butterfly_stride(block if size is None else size, block, stage)
    return x, dict(block=block, stage=index(stage), axis=axis, cyclic=bool(cyclic))


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
