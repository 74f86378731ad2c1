"""Sort every channel over all tokens, ascending or descending."""

from collections.abc import Sequence

import numpy as np
from keras import ops

from keras_permix._typing import Mask, Tensor
from keras_permix.ops.backend.plan import Plan
from keras_permix.ops.dispatch.checks import check_mask, check_tokens
from keras_permix.ops.dispatch.dispatch import dispatch, op
from keras_permix.ops.reference.packing import pack, sorting_order, take_tokens, token_range, unpack


@op
def slice_sort(
    x: Tensor,
    descending: bool | Sequence[bool] | np.ndarray = False,
    *,
    mask: Mask = None,
    implementation: str | None = None,
) -> Tensor:
    """Sort every channel over all tokens, ascending or descending.

    A descending channel is the reversed ascending channel, so the later of two equal tokens comes
    first. Stability, zeros, NaN and gradients are as in `group_sort`.

    Args:
        x: Tensor of shape (batch, tokens, channels), floating or integer.
        descending: A boolean, or one boolean per channel, as returned by `interleave_order`.
        mask: Boolean tensor of shape (batch, tokens), True for real tokens. Only these are
            sorted, into the positions of real tokens. Padding becomes 0.
        implementation: A name that `explain` lists. None selects the first that supports the call.

    Returns:
        A tensor like `x`.

    Raises:
        ValueError: for a wrong shape, a wrong number of booleans, or an implementation that
            does not support the call.

    Example:
        >>> import keras
        >>> from keras_permix.ops import slice_sort
        >>> x = keras.ops.array([[[1.0, 1.0], [3.0, 3.0], [2.0, 2.0]]])
        >>> keras.ops.convert_to_numpy(slice_sort(x, (False, True)))[0].tolist()
        [[1.0, 3.0], [2.0, 2.0], [3.0, 1.0]]

    Reference: Yuan & Xu, "Sliceformer", 2023, arXiv:2310.17683.
    """
    x = check_tokens(x)
    channels = x.shape[2]
    given = descending.tolist() if hasattr(descending, "tolist") else descending
    given = given if isinstance(given, list | tuple) else [given] * channels
    if len(given) != channels or not all(isinstance(each, bool | np.bool_) for each in given):
        rule = "`descending` must be a boolean, or one boolean per channel."
        raise ValueError(f"{rule} Received: {descending=}, {channels=}")
    descending = tuple(map(bool, given))
    return dispatch(
        "slice_sort",
        slice_sort_reference,
        x,
        mask=check_mask(mask, x),
        plan=Plan(descending=descending if any(descending) else None),
        implementation=implementation,
        descending=descending,
    )


def slice_sort_reference(x, mask, plan):
    packed = pack(x, mask)
    position = token_range(x)
    length = ops.shape(x)[1] if packed.lengths is None else packed.lengths
    padding = None if packed.lengths is None else (position >= length)[:, None]
    order = sorting_order(packed.values[:, None], padding)[:, 0]
    values = take_tokens(packed.values, order)
    if plan.descending is not None:
        mirror = ops.where(position < length, length - 1 - position, position)
        values = take_tokens(values, ops.where(np.array(plan.descending), mirror, position))
    return unpack(values, packed, mask)
