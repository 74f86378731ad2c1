"""Swap the maximum of every channel with the channel's first token."""

from keras import ops

from keras_permix._typing import Mask, Tensor
from keras_permix.ops.dispatch.checks import check_mask, check_tokens
from keras_permix.ops.dispatch.dispatch import dispatch, op
from keras_permix.ops.reference.packing import pack, take_tokens, token_range, unpack


@op
def max_exchange(x: Tensor, *, mask: Mask = None, implementation: str | None = None) -> Tensor:
    """Swap the maximum of every channel with the channel's first token.

    The first of several equal maxima is swapped. The result is identical on every backend, and the
    gradient is the same swap. NaN is kept, at an unspecified position.

    Args:
        x: Tensor of shape (batch, tokens, channels), floating or integer.
        mask: Boolean tensor of shape (batch, tokens), True for real tokens. Their maximum is
            swapped with the first real token. Padding becomes 0.
        implementation: A name that `explain` lists. None selects the first that supports the call.

    Returns:
        A tensor like `x`.

    Raises:
        ValueError: for a wrong shape, or an implementation that does not support the call.

    Example:
        >>> import keras
        >>> from keras_permix.ops import max_exchange
        >>> x = keras.ops.reshape(keras.ops.array([1.0, 2.0, 5.0]), (1, 3, 1))
        >>> keras.ops.convert_to_numpy(max_exchange(x)).ravel().tolist()
        [5.0, 2.0, 1.0]

    Reference: Yuan & Xu, "Sliceformer", 2023, arXiv:2310.17683.
    """
    x = check_tokens(x)
    mask = check_mask(mask, x)
    return dispatch(
        "max_exchange", max_exchange_reference, x, mask=mask, implementation=implementation
    )


def max_exchange_reference(x, mask):
    packed = pack(x, mask)
    position = token_range(x)
    candidates = packed.values
    if mask is not None:
        # Padding repeats the first real token, which wins against its copies.
        candidates = ops.where(position < packed.lengths, candidates, candidates[:, :1])
    # Keras' `argmax` would prefer 0.0 to -0.0.
    candidates = ops.where(candidates == 0, ops.zeros_like(candidates), candidates)
    winner = ops.expand_dims(ops.argmax(candidates, axis=1), 1)
    winner = ops.cast(winner, "int32")
    table = ops.where(position == winner, 0, ops.where(position == 0, winner, position))
    return unpack(take_tokens(packed.values, table), packed, mask)
