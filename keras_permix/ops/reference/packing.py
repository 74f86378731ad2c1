"""Pack real tokens to the front, make index tables, sort with padding last, and cut chunks."""

from functools import partial
from typing import Any, NamedTuple

from keras import ops

from keras_permix.ops.backend.plan import remainders, steps_at


class Packed(NamedTuple):
    """Hold tokens with real tokens first, in order."""

    values: Any  # (batch, tokens, channels)
    lengths: Any  # (batch, 1, 1), the number of real tokens, or None for all of them
    positions: Any  # (batch, tokens), the new position of each token, or None if unchanged


def pack(x, mask):
    if mask is None:
        return Packed(x, None, None)
    real = ops.cast(mask, "int32")
    lengths = ops.sum(real, axis=1, keepdims=True)
    behind = lengths + ops.cumsum(1 - real, axis=1)
    positions = ops.where(real == 1, ops.cumsum(real, axis=1), behind) - 1
    order = ops.argsort(positions, axis=1)
    return Packed(take_tokens(x, order[..., None]), lengths[..., None], positions)


def unpack(values, packed, mask):
    """Return real tokens to their positions, and fill the rest with zeros."""
    if mask is None:
        return values
    values = take_tokens(values, packed.positions[..., None])
    return ops.where(ops.cast(mask, "bool")[..., None], values, ops.zeros_like(values))


def take_tokens(x, table):
    """Take tokens by a table that broadcasts to the shape of `x`: out[n] = x[table[n]]."""
    return ops.take_along_axis(x, ops.broadcast_to(table, ops.shape(x)), axis=1)


def token_range(x):
    """Return token indices of shape (1, tokens, 1); the start is explicit for jax2onnx."""
    return ops.arange(0, ops.shape(x)[1], dtype="int32")[None, :, None]


def shift_table(x, steps, lengths=None):
    """Return the source of each token of the shifted result; padding is not shifted."""
    position, tokens = token_range(x), ops.shape(x)[1]
    steps = steps_modulo(steps, tokens if lengths is None else lengths, x.shape[1])
    if lengths is None:
        known = isinstance(tokens, int)  # a compiler may use a symbol
        return ops.mod(position - steps, max(tokens, 1) if known else ops.maximum(tokens, 1))
    source = ops.mod(position - steps, ops.maximum(lengths, 1))
    return ops.where(position < lengths, source, position)


def steps_modulo(steps, lengths, tokens=None):
    """Reduce the step of every channel modulo the number of tokens; 0 tokens count as 1.

    `steps` is a tuple of Python integers of any sign and size, or a `ShiftSchedule`. `lengths` is a
    number of tokens, at most `tokens` if that is known: a Python integer, or an int32 tensor, a
    scalar or (..., 1). The result is an int32 tensor, (channels,) or (..., channels).
    """
    if isinstance(lengths, int):
        return ops.convert_to_tensor(steps_at(steps, lengths), "int32")
    if not isinstance(steps, tuple):
        steps = steps.steps_for(lengths, tokens)
    lengths = ops.maximum(lengths, 1)
    if isinstance(steps, tuple):
        to_tensor = partial(ops.convert_to_tensor, dtype="int32")
        return remainders(steps, lengths, to_tensor, bits=31, digit=4)  # up to 2**27 tokens
    return ops.mod(steps, lengths)


def sorting_order(runs, padding=None):
    """Return the stable ascending order along axis 2, with padding last."""
    order = ops.argsort(runs, axis=2)
    if padding is None:
        return order
    size = ops.shape(runs)[2]
    padding = ops.broadcast_to(ops.cast(padding, "int32"), ops.shape(runs))
    late = ops.take_along_axis(padding, order, axis=2)
    distinct = late * size + ops.arange(0, size, dtype="int32")[None, None, :, None]
    return ops.take_along_axis(order, ops.argsort(distinct, axis=2), axis=2)


def cut(x, size, axis=1):
    """Cut an axis into pieces, the last padded with zeros: (…, pieces, size, …)."""
    shape = ops.shape(x)
    pieces = -(-shape[axis] // size)
    missing = pieces * size - shape[axis]
    x = ops.pad(x, [(0, missing if i == axis else 0) for i in range(len(shape))])
    return ops.reshape(x, (*shape[:axis], pieces, size, *shape[axis + 1 :]))


def join(pieces, axis=1):
    """Join the pieces of an axis: (…, pieces * size, …)."""
    shape = ops.shape(pieces)
    length = shape[axis] * shape[axis + 1]
    return ops.reshape(pieces, (*shape[:axis], length, *shape[axis + 2 :]))
