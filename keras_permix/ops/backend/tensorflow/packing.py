"""Pack real tokens to the front, shift them, and unpack them, in TensorFlow.

Shifts are gathers by a table. The table is constant, or made at run time for a mask or an unknown
number of tokens. In the latter case, the same gather also packs or unpacks.
"""

from typing import NamedTuple

import tensorflow as tf

from keras_permix.ops.backend.plan import shift_positions
from keras_permix.ops.reference.packing import steps_modulo


class Packing(NamedTuple):
    """Hold the positions of tokens: real tokens first, in order, then padding.

    For a known number of tokens without padding, only the steps are set.
    """

    steps: tuple | tf.Tensor | None  # from 0 to `length` - 1, (batch, 1, channels) or known
    length: tf.Tensor | None = None  # (batch, 1, 1), the number of real tokens
    mask: tf.Tensor | None = None  # (batch, tokens), True at real tokens; None: all tokens
    position: tf.Tensor | None = None  # (batch, tokens), of each token; None: unchanged
    token: tf.Tensor | None = None  # (batch, tokens), the token at each position


def find_steps(x, mask, plan):
    """Return the steps of `plan` for each sample, or None if they are known while tracing."""
    if plan.steps is None or (mask is None and x.shape[1] is not None):
        return None
    steps = steps_modulo(plan.steps, _length(x, mask), x.shape[1])
    if plan.aligned:  # channel 0 is not shifted
        steps = tf.where(tf.range(x.shape[2]) == 0, 0, steps)
    return steps


def find_packing(x, mask, steps):
    """Return the packing of `x`, (batch, tokens, channels), with steps for each sample or known."""
    if mask is None and x.shape[1] is not None:
        return Packing(steps)
    length = _length(x, mask)
    if mask is None:
        return Packing(steps, length)
    batch, tokens = tf.unstack(tf.shape(mask))
    real = tf.cast(mask, "int32")
    behind = length[:, 0] + tf.cumsum(1 - real, axis=1)
    position = tf.where(mask, tf.cumsum(real, axis=1), behind) - 1
    start = tokens * tf.range(batch)[:, None]
    token = tf.math.invert_permutation(tf.reshape(start + position, [-1]))
    token = tf.reshape(token, (batch, tokens)) - start
    return Packing(steps, length, mask, position, token)


def _length(x, mask):
    """Return the number of real tokens of each sample, (batch, 1, 1)."""
    if mask is not None:
        return tf.reduce_sum(tf.cast(mask, "int32"), axis=1, keepdims=True)[:, :, None]
    batch, tokens = tf.unstack(tf.shape(x)[:2])
    return tf.fill((batch, 1, 1), tokens)


def pack(x, packing, steps=None):
    """Bring tokens to their positions, and shift every channel by its step."""
    if steps is None:
        return x if packing.token is None else tf.gather(x, packing.token, batch_dims=1)
    if packing.length is None:
        return _take_known(x, steps)
    return take(x, _tokens(_shifted(_range(x), packing, steps), packing))


def unpack(x, packing, steps=None):
    """Undo `pack`, and set padding to zero."""
    if steps is None:
        out = x if packing.position is None else tf.gather(x, packing.position, batch_dims=1)
    elif packing.length is None:
        return _take_known(x, steps, back=True)
    else:
        out = take(x, _shifted(_positions(x, packing), packing, steps, back=True))
    return _clear(out, packing)


def shift(x, packing, steps, back=False):
    """Shift real tokens without packing them, and set padding to zero."""
    if steps is None:
        return _clear(x, packing)
    if packing.length is None:
        return _take_known(x, steps, back)
    positions = _shifted(_positions(x, packing), packing, steps, back)
    return _clear(take(x, _tokens(positions, packing)), packing)


def take(x, tokens):
    """Take a token for every channel: `out[b, n, c] = x[b, tokens[b, n, c], c]`."""
    batch, length, channels = tf.unstack(tf.shape(x))
    positions = tokens * channels + tf.range(channels)
    return tf.gather(tf.reshape(x, (batch, length * channels)), positions, batch_dims=1)


def _take_known(x, steps, back=False):
    _, tokens, channels = x.shape
    flat = tf.reshape(x, (-1, tokens * channels))
    flat = tf.gather(flat, shift_positions(steps, tokens, back), axis=1)
    return tf.reshape(flat, (-1, tokens, channels))


def _shifted(position, packing, steps, back=False):
    """Return the sources of the values at real positions, (batch, tokens), per channel."""
    position, length = position[:, :, None], packing.length
    moved = position + steps if back else position - steps
    # Positions are off by at most one length, so adding or subtracting it replaces a division.
    over = moved >= length if back else moved < 0
    moved = tf.where(over, moved - length if back else moved + length, moved)
    return tf.where(position < length, moved, position)


def _tokens(positions, packing):
    return positions if packing.token is None else tf.gather(packing.token, positions, batch_dims=1)


def _positions(x, packing):
    return _range(x) if packing.position is None else packing.position


def _range(x):
    return tf.range(tf.shape(x)[1])[None]


def _clear(x, packing):
    return x if packing.mask is None else tf.where(packing.mask[:, :, None], x, tf.zeros_like(x))
