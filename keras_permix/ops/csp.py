"""Shift every channel, then sort it in groups (channel-wise sample permutation)."""

from keras_permix._typing import Mask, Tensor
from keras_permix.ops.backend.plan import Plan
from keras_permix.ops.dispatch.checks import check_groups, check_mask, check_tokens
from keras_permix.ops.dispatch.dispatch import dispatch, op
from keras_permix.ops.group_sort import sort_groups
from keras_permix.ops.reference.packing import pack, shift_table, take_tokens, unpack
from keras_permix.ops.shift_steps import Steps, check_steps
from keras_permix.utils.checks import ALIGNMENTS, check_choice


@op
def csp(
    x: Tensor,
    steps: Steps,
    group_size: int | None,
    *,
    align: str = "independent",
    ragged: bool = False,
    mask: Mask = None,
    implementation: str | None = None,
) -> Tensor:
    """Shift every channel circularly, then sort it within groups of tokens.

    Equals `group_sort(channel_shift(x, steps), group_size)` in one pass. With
    `align="reference"`, channel 0 is neither shifted nor sorted, and the other channels take the
    ranks of its unshifted groups. Equal values and NaN are ordered as in `group_sort`. The gradient
    treats the permutation as constant and applies its inverse.

    Args:
        x: Tensor of shape (batch, tokens, channels), floating or integer.
        steps: One integer per channel, or a `ShiftSchedule`, as for `channel_shift`.
        group_size: Tokens per group; 1 only shifts, None sorts all tokens as one group.
        align: `"independent"` or `"reference"`.
        ragged: Whether the last group may be shorter.
        mask: Boolean tensor of shape (batch, tokens), True for real tokens. Only these are
            permuted, as if there were no padding. Padding becomes 0.
        implementation: A name that `explain` lists. None selects the first that supports the call.

    Returns:
        A tensor like `x`.

    Raises:
        ValueError: as `channel_shift` and `group_sort` do.
        TypeError: for steps that are not integers.

    Example:
        >>> import keras
        >>> from keras_permix.ops import csp
        >>> x = keras.ops.reshape(keras.ops.array([1.0, 4.0, 3.0, 2.0]), (1, 4, 1))
        >>> keras.ops.convert_to_numpy(csp(x, (1,), 2)).ravel().tolist()
        [1.0, 2.0, 3.0, 4.0]

    Reference: Yuan & Xu, "Channel-wise Sample Permutation", 2024, arXiv:2410.10914, equations 4–5.
    """
    x = check_tokens(x)
    steps = check_steps(steps, x.shape[2])
    x, group_size = check_groups(x, group_size, ragged)
    return dispatch(
        "csp",
        csp_reference,
        x,
        mask=check_mask(mask, x),
        plan=Plan(steps, group_size, check_choice("align", align, ALIGNMENTS) == "reference"),
        implementation=implementation,
        steps=steps,
        group_size=group_size,
        align=align,
        ragged=ragged,
    )


def csp_reference(x, mask, plan):
    packed = pack(x, mask)
    shifted = take_tokens(packed.values, shift_table(packed.values, plan.steps, packed.lengths))
    values = sort_groups(shifted, packed.values[..., :1], packed.lengths, plan)
    return unpack(values, packed, mask)
