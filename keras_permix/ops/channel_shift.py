"""Shift every channel along the tokens by a separate step."""

from keras_permix._typing import Mask, Tensor
from keras_permix.ops.backend.plan import Plan
from keras_permix.ops.dispatch.checks import check_mask, check_tokens
from keras_permix.ops.dispatch.dispatch import dispatch, op
from keras_permix.ops.reference.packing import pack, shift_table, take_tokens, unpack
from keras_permix.ops.shift_steps import Steps, check_steps


@op
def channel_shift(
    x: Tensor, steps: Steps, *, mask: Mask = None, implementation: str | None = None
) -> Tensor:
    """Shift every channel circularly along the tokens by a separate step.

    `out[b, n, c] = x[b, (n - steps[c]) % tokens, c]`. A positive step moves values to larger
    token indices. The result is identical on every backend, and the gradient is the shift by the
    opposite steps.

    Args:
        x: Tensor of shape (batch, tokens, channels), of any dtype.
        steps: One integer per channel of any sign and size, taken modulo the number of tokens, or a
            `ShiftSchedule`. Use a tuple under `torch.compile`.
        mask: Boolean tensor of shape (batch, tokens), True for real tokens. Only these are shifted,
            with steps modulo their number, as if there were no padding. Padding becomes 0.
        implementation: A name that `explain` lists. None selects the first that supports the call.

    Returns:
        A tensor like `x`.

    Raises:
        ValueError: for a wrong shape, a wrong number of steps, or an implementation that does
            not support the call.
        TypeError: for steps that are not integers.

    Example:
        >>> import keras
        >>> from keras_permix.ops import channel_shift
        >>> x = keras.ops.reshape(keras.ops.arange(6), (1, 3, 2))
        >>> keras.ops.convert_to_numpy(channel_shift(x, (0, 1)))[0].tolist()
        [[0, 5], [2, 1], [4, 3]]

    Reference: Yuan & Xu, "Channel-wise Sample Permutation", 2024, arXiv:2410.10914, equation (3).
    """
    x = check_tokens(x)
    steps = check_steps(steps, x.shape[2])
    mask = check_mask(mask, x)
    return dispatch(
        "channel_shift",
        channel_shift_reference,
        x,
        mask=mask,
        plan=Plan(steps, group_size=1),
        implementation=implementation,
        steps=steps,
    )


def channel_shift_reference(x, mask, plan):
    packed = pack(x, mask)
    table = shift_table(packed.values, plan.steps, packed.lengths)
    return unpack(take_tokens(packed.values, table), packed, mask)
