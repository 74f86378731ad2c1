"""What the references share: tokens packed to the front, index tables, sorts that know padding."""

from typing import Any, NamedTuple

from keras import ops


class Packed(NamedTuple):
    """Tokens with the real ones in front, in order."""

    values: Any  # (batch, tokens, channels)
    lengths: Any  # (batch, 1, 1), the number of real tokens, or None for all of them
    places: Any  # (batch, tokens), where each token went, or None for nowhere


def pack(x, mask):
    if mask is None:
        return Packed(x, None, None)
    real = ops.cast(mask, "int32")
    lengths = ops.sum(real, axis=1, keepdims=True)
    behind = lengths + ops.cumsum(1 - real, axis=1)
    places = ops.where(real == 1, ops.cumsum(real, axis=1), behind) - 1
    order = ops.argsort(places, axis=1)
    return Packed(take_tokens(x, order[..., None]), lengths[..., None], places)


def unpack(values, packed, mask):
    """Bring real tokens back to their places, and fill the rest with zeros."""
    if mask is None:
        return values
    values = take_tokens(values, packed.places[..., None])
    return ops.where(ops.cast(mask, "bool")[..., None], values, ops.zeros_like(values))


def take_tokens(x, table):
    """Take tokens by a table that broadcasts to the shape of `x`: out[n] = x[table[n]]."""
    return ops.take_along_axis(x, ops.broadcast_to(table, ops.shape(x)), axis=1)


def token_range(x):
    return ops.arange(ops.shape(x)[1], dtype="int32")[None, :, None]


def shift_table(x, steps, lengths=None):
    """Where each token of the shifted result comes from; padding stays where it is."""
    place = token_range(x)
    tokens = ops.shape(x)[1]
    steps = ops.mod(ops.convert_to_tensor(steps, "int32"), tokens)
    if lengths is None:
        return ops.mod(place - steps, tokens)
    return ops.where(place < lengths, ops.mod(place - steps, ops.maximum(lengths, 1)), place)


def sorting_order(runs, padding=None):
    """Stable ascending order along axis 2, with padding behind everything else."""
    order = ops.argsort(runs, axis=2)
    if padding is None:
        return order
    size = ops.shape(runs)[2]
    padding = ops.broadcast_to(ops.cast(padding, "int32"), ops.shape(runs))
    late = ops.take_along_axis(padding, order, axis=2)
    distinct = late * size + ops.arange(size, dtype="int32")[None, None, :, None]
    return ops.take_along_axis(order, ops.argsort(distinct, axis=2), axis=2)
