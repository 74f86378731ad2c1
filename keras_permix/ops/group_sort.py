"""Sort every channel within groups of consecutive tokens."""

from keras import ops

from keras_permix._typing import Mask, Tensor
from keras_permix.ops.backend.plan import Plan
from keras_permix.ops.dispatch.checks import check_groups, check_mask, check_tokens
from keras_permix.ops.dispatch.dispatch import dispatch, op
from keras_permix.ops.reference.packing import cut, join, pack, sorting_order, token_range, unpack
from keras_permix.utils.checks import ALIGNMENTS, check_choice


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

    With `align="independent"`, every group is sorted in ascending order. With
    `align="reference"`, channel 0 is unchanged, and the groups of the other channels take the ranks
    of its groups. Sorting is stable on every backend, for values and gradients, and permutes the
    input exactly. Signed zeros are equal, so their order is unspecified, as is the position of NaN.
    The reference implementation may treat subnormal floats as zeros.

    Args:
        x: Tensor of shape (batch, tokens, channels), floating or integer.
        group_size: Tokens per group; None sorts all tokens as one group.
        align: `"independent"` or `"reference"`.
        ragged: Whether the last group may be shorter.
        mask: Boolean tensor of shape (batch, tokens), True for real tokens. Groups then consist
            of consecutive real tokens. Padding becomes 0.
        implementation: A name that `explain` lists. None selects the first that supports the call.

    Returns:
        A tensor like `x`.

    Raises:
        ValueError: for a wrong shape, a group size that does not divide the number of tokens
            (unless `ragged`), an unknown `align`, or an implementation that does not
            support the call.

    Example:
        >>> import keras
        >>> from keras_permix.ops import group_sort
        >>> x = keras.ops.reshape(keras.ops.array([2.0, 1.0, 3.0, 0.0]), (1, 4, 1))
        >>> keras.ops.convert_to_numpy(group_sort(x, 2)).ravel().tolist()
        [1.0, 2.0, 0.0, 3.0]

    Reference: Yuan & Xu, "Channel-wise Sample Permutation", 2024, arXiv:2410.10914, equations 4–5.
    """
    x = check_tokens(x)
    x, group_size = check_groups(x, group_size, ragged)
    return dispatch(
        "group_sort",
        group_sort_reference,
        x,
        mask=check_mask(mask, x),
        plan=Plan(None, group_size, check_choice("align", align, ALIGNMENTS) == "reference"),
        implementation=implementation,
        group_size=group_size,
        align=align,
        ragged=ragged,
    )


def group_sort_reference(x, mask, plan):
    packed = pack(x, mask)
    values = sort_groups(packed.values, packed.values[..., :1], packed.lengths, plan)
    return unpack(values, packed, mask)


def sort_groups(values, reference, lengths, plan):
    """Sort packed values in groups, if aligned by the ranks of `reference` (batch, tokens, 1)."""
    tokens = ops.shape(values)[1]
    group_size = tokens if plan.group_size is None else plan.group_size
    padding, whole = None, isinstance(tokens, int) and tokens % group_size == 0
    if lengths is not None or not whole:
        real = token_range(values) < (tokens if lengths is None else lengths)
        padding = ops.logical_not(cut(real, group_size))
    runs, reference_runs = cut(values, group_size), cut(reference, group_size)
    out = ops.take_along_axis(runs, sorting_order(runs, padding), axis=2)
    if plan.aligned:
        rank = ops.argsort(sorting_order(reference_runs, padding), axis=2)
        out = ops.take_along_axis(out, ops.broadcast_to(rank, ops.shape(runs)), axis=2)
        out = ops.concatenate([reference_runs, out[..., 1:]], axis=-1)
    return join(out)[:, :tokens]
