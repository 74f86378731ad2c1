"""Relax channel-wise sample permutation to a differentiable op."""

from keras import ops

from keras_permix._typing import Mask, Tensor
from keras_permix.ops.dispatch.checks import check_floating, check_groups, check_mask, check_tokens
from keras_permix.ops.dispatch.dispatch import dispatch, op
from keras_permix.ops.reference.linear import full_precision
from keras_permix.ops.reference.packing import (
    cut,
    join,
    pack,
    shift_table,
    take_tokens,
    token_range,
    unpack,
)
from keras_permix.ops.shift_steps import Steps, check_steps
from keras_permix.ops.sinkhorn import check_temperature, sinkhorn
from keras_permix.utils.checks import check_integer


@op
def sinkhorn_csp(
    x: Tensor,
    steps: Steps,
    group_size: int | None,
    *,
    iterations: int = 20,
    temperature: float | Tensor = 1.0,
    ragged: bool = False,
    mask: Mask = None,
    implementation: str | None = None,
) -> Tensor:
    """Permute the tokens of every channel softly: `csp` with a temperature.

    The result is `sinkhorn(reference group^T) @ group`, where `reference` is a group of channel 0
    and `group` the same group of another, shifted channel. With a falling temperature and more
    iterations, it approaches `csp` with `align="reference"`. Gradients also flow through the order.
    Channel 0 is unchanged. Each group and channel requires a matrix of group size by group size.

    The iterations start from the solution at temperature zero, computed by sorting. This does not
    change their limit. After 20 iterations, rows are within a few percent of it at any temperature.

    Args:
        x: Tensor of shape (batch, tokens, channels), floating.
        steps: One integer per channel, or a `ShiftSchedule`, as for `csp`.
        group_size: Tokens per group; None takes all tokens as one group.
        iterations, temperature: See `sinkhorn`.
        ragged: Whether the last group may be shorter.
        mask: Boolean tensor of shape (batch, tokens), True for real tokens. Only these are mixed.
            Padding becomes 0.
        implementation: A name that `explain` lists. None selects the first that supports the call.

    Returns:
        A tensor like `x`.

    Raises:
        ValueError: as `csp` and `sinkhorn` do.
        TypeError: for steps that are not integers.

    Example:
        >>> import keras
        >>> from keras_permix.ops import sinkhorn_csp
        >>> x = keras.ops.convert_to_tensor([[[1.0, 7.0], [3.0, 5.0]]])
        >>> for temperature in (100.0, 1.0, 0.01):
        ...     soft = sinkhorn_csp(x, (0, 0), 2, temperature=temperature)
        ...     values = keras.ops.convert_to_numpy(soft)[0, :, 1].astype("float64")
        ...     print(values.round(2).tolist())
        [5.99, 6.01]
        [5.24, 6.76]
        [5.0, 7.0]

    Reference: Yuan & Xu, "Channel-wise Sample Permutation", 2024, arXiv:2410.10914, equation (9)
    and Theorem 2. The soft form extends the paper.
    """
    x = check_tokens(x)
    check_floating(x)
    x, group_size = check_groups(x, group_size, ragged)
    return dispatch(
        "sinkhorn_csp",
        sinkhorn_csp_reference,
        x,
        mask=check_mask(mask, x),
        implementation=implementation,
        steps=check_steps(steps, x.shape[2]),
        group_size=group_size,
        iterations=check_integer("iterations", iterations),
        temperature=check_temperature(temperature),
        ragged=ragged,
    )


def sinkhorn_csp_reference(x, mask, *, steps, group_size, iterations, temperature, ragged):
    packed = pack(x, mask)
    if x.shape[2] == 1:  # only the reference channel, which is unchanged
        return unpack(packed.values, packed, mask)
    values, real = packed.values, None
    tokens = ops.shape(values)[1]
    size = tokens if group_size is None else group_size
    if ragged or packed.lengths is not None:
        length = tokens if packed.lengths is None else packed.lengths
        real = cut(ops.cast(token_range(values) < length, values.dtype), size)
    shifted = take_tokens(values, shift_table(values, steps, packed.lengths))
    reference, groups = cut(values[..., :1], size), cut(shifted[..., 1:], size)
    if real is not None:
        reference, groups = _repeat_last(reference, real), _repeat_last(groups, real)
    scores = _score(reference, groups)
    if real is not None:
        scores = _keep_apart(scores, real)
    soft = sinkhorn(scores, iterations, temperature)
    mixed = ops.einsum("bkcnm,bkmc->bknc", ops.cast(soft, values.dtype), groups)
    out = join(ops.concatenate([reference, mixed], axis=-1))[:, :tokens]
    return unpack(out, packed, mask)


def _repeat_last(groups, real):
    """Fill padding, which follows the real tokens, with the greatest real value of its group."""
    lowest = ops.where(real > 0, groups, -float("inf"))
    greatest = ops.amax(lowest, axis=2, keepdims=True)
    return ops.where(real > 0, groups, ops.where(greatest > -float("inf"), greatest, 0))


def _score(reference, groups):
    """Return `reference channel group^T`, minus the dual potentials of the sorted order.

    The potentials solve optimal transport on a line, and are constant per row or column. The
    iterations would also find them, but slowly at a low temperature.
    """
    precise = full_precision(groups.dtype)
    reference, groups = ops.cast(reference, precise), ops.cast(groups, precise)
    row_order, column_order = ops.argsort(reference, axis=2), ops.argsort(groups, axis=2)
    low_to_high = ops.take_along_axis(reference, row_order, axis=2)
    sorted_groups = ops.take_along_axis(groups, column_order, axis=2)
    middle = (sorted_groups[:, :, 1:] + sorted_groups[:, :, :-1]) / 2
    rows = ops.cumsum((low_to_high[:, :, 1:] - low_to_high[:, :, :-1]) * middle, axis=2)
    rows = ops.pad(rows, ((0, 0), (0, 0), (1, 0), (0, 0)))
    columns = low_to_high * sorted_groups - rows
    positions = ops.broadcast_to(ops.argsort(row_order, axis=2), ops.shape(groups))
    rows = ops.take_along_axis(rows, positions, axis=2)
    columns = ops.take_along_axis(columns, ops.argsort(column_order, axis=2), axis=2)
    potentials = [ops.transpose(x, (0, 1, 3, 2)) for x in (rows, columns)]
    rows, columns = (ops.stop_gradient(potential) for potential in potentials)
    products = ops.einsum("bkno,bkmc->bkcnm", reference, groups)
    return products - rows[..., None] - columns[..., None, :]


def _keep_apart(scores, real):
    """Restrict padding to its position, so that no row is empty."""
    positions = ops.arange(ops.shape(scores)[-1])
    itself = ops.where(positions[:, None] == positions, 0.0, -float("inf"))
    both = ops.swapaxes(real, 2, 3) * real > 0
    return ops.where(both[:, :, None], scores, ops.cast(itself, scores.dtype))
