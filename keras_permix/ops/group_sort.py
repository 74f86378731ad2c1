"""Sort every channel within groups of consecutive tokens."""

from keras import ops

from keras_permix._typing import Mask, Tensor
from keras_permix.ops.backend.plan import Plan
from keras_permix.ops.dispatch.checks import check_groups, check_mask, check_sortable
from keras_permix.ops.dispatch.dispatch import dispatch
from keras_permix.ops.dispatch.node import op
from keras_permix.ops.reference.packing import cut, join, pack, sorting_order, token_range, unpack
from keras_permix.utils.checks import check_align


@op
def group_sort(
    x: Tensor,
    group_size: int | None = None,
    *,
    align: str = "independent",
    ragged: bool = False,
    mask: Mask = None,
    implementation: str | None = None,
) -> Tensor:
    """Sort every channel along its tokens, within groups of `group_size` consecutive tokens.

    With `align="independent"` every group ascends. With `align="reference"` channel 0 stays as
    it is, and the groups of every other channel take the ranks of its group. Sorting is stable
    on every backend, for values as for gradients, and the result is a permutation of the input
    to the last bit. Signed zeros count as equal, and keep their signs in an unspecified order;
    NaN survives at an unspecified place. (The reference may take subnormal floats for zeros.)

    Args:
        x: Tensor of shape (batch, tokens, channels), floating or integer.
        group_size: Tokens per group; None sorts all tokens as one group.
        align: `"independent"` or `"reference"`.
        ragged: Allow a last group that is shorter.
        mask: Booleans of shape (batch, tokens), True for real tokens. Groups are then made of
            consecutive real tokens, and the others become 0.
        implementation: None to have the best one chosen, or a name that `explain` prints.

    Returns:
        A tensor like `x`.

    Raises:
        ValueError: for a wrong shape, a group size that does not divide the number of tokens
            (unless `ragged`), an unknown `align`, or an implementation that cannot serve the call.

    Example:

    >>> import keras
    >>> from keras_permix.ops import group_sort
    >>> x = keras.ops.reshape(keras.ops.array([2.0, 1.0, 3.0, 0.0]), (1, 4, 1))
    >>> keras.ops.convert_to_numpy(group_sort(x, 2)).ravel().tolist()
    [1.0, 2.0, 0.0, 3.0]

    Source: Yuan and Xu, "Channel-wise Sample Permutation", 2024, equations (4) and (5).
    """
    x = check_sortable(x)
    x, group_size = check_groups(x, group_size, ragged)
    return dispatch(
        "group_sort",
        group_sort_reference,
        x,
        mask=check_mask(mask, x),
        plan=Plan(None, group_size, check_align(align) == "reference"),
        implementation=implementation,
        group_size=group_size,
        align=align,
        ragged=ragged,
    )


def group_sort_reference(x, mask, plan):
    packed = pack(x, mask)
    values = sort_groups(packed.values, packed.values[..., :1], packed.lengths, plan)
    return unpack(values, packed, mask)


def sort_groups(values, leader, lengths, plan):
    """Sort packed values in groups; `leader`, (batch, tokens, 1), is what the others align to."""
    tokens = ops.shape(values)[1]
    group_size = tokens if plan.group_size is None else plan.group_size
    padding, whole = None, isinstance(tokens, int) and tokens % group_size == 0
    if lengths is not None or not whole:
        real = token_range(values) < (tokens if lengths is None else lengths)
        padding = ops.logical_not(cut(real, group_size))
    runs, leader_runs = cut(values, group_size), cut(leader, group_size)
    out = ops.take_along_axis(runs, sorting_order(runs, padding), axis=2)
    if plan.aligned:
        rank = ops.argsort(sorting_order(leader_runs, padding), axis=2)
        out = ops.take_along_axis(out, ops.broadcast_to(rank, ops.shape(runs)), axis=2)
        out = ops.concatenate([leader_runs, out[..., 1:]], axis=-1)
    return join(out)[:, :tokens]
