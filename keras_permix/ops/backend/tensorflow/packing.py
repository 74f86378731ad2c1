"""Real tokens brought to the front, shifted among themselves, and brought back, in TensorFlow.

Shifting is a gather by a table. It is known in advance, or made at run time where a mask or an
unknown number of tokens decides; the same gather then packs, or unpacks.
"""

from typing import NamedTuple

import numpy as np
import tensorflow as tf

from keras_permix.ops.backend.plan import shift_places
from keras_permix.ops.reference.packing import steps_modulo


class Packing(NamedTuple):
    """Places of tokens: the real ones in front and in order, then padding."""

    length: tf.Tensor  # (batch, 1, 1), the number of real tokens
    mask: tf.Tensor | None  # (batch, tokens), which tokens are real; None for all of them
    place: tf.Tensor | None  # (batch, tokens), where each token goes; None for nowhere
    token: tf.Tensor | None  # (batch, tokens), which token goes to each place
    steps: tf.Tensor | tuple | None  # (batch, 1, channels); one per channel where they are known


def find_packing(x, mask, plan):
    """The packing of `x`, (batch, tokens, channels), and the steps from 0 to the length - 1."""
    if mask is None and x.shape[1] is not None:
        return Packing(None, None, None, None, plan.steps)
    batch, tokens = tf.unstack(tf.shape(x)[:2])
    if mask is None:
        length = tf.fill((batch, 1, 1), tokens)
        return Packing(length, None, None, None, _steps(plan, length, None))
    real = tf.cast(mask, "int32")
    length = tf.reduce_sum(real, axis=1, keepdims=True)
    behind = length + tf.cumsum(1 - real, axis=1)
    place = tf.where(mask, tf.cumsum(real, axis=1), behind) - 1
    start = tokens * tf.range(batch)[:, None]
    token = tf.math.invert_permutation(tf.reshape(start + place, [-1]))
    token = tf.reshape(token, (batch, tokens)) - start
    length = length[:, :, None]
    return Packing(length, mask, place, token, _steps(plan, length, x.shape[1]))


def pack(x, packing, shifted=True):
    """Bring tokens to their places, and shift every channel by its step."""
    if packing.steps is None or not shifted:
        return x if packing.token is None else tf.gather(x, packing.token, batch_dims=1)
    if packing.length is None:
        return _take_known(x, packing.steps)
    return take(x, _tokens(_shifted(_range(x), packing, back=True), packing))


def unpack(x, packing, shifted=True):
    """Undo `pack`, and set padding to zero."""
    if packing.steps is None or not shifted:
        out = x if packing.place is None else tf.gather(x, packing.place, batch_dims=1)
    elif packing.length is None:
        return _take_known(x, packing.steps, back=True)
    else:
        place = _range(x) if packing.place is None else packing.place
        out = take(x, _shifted(place, packing))
    return _clear(out, packing)


def shift(x, packing, back=False):
    """Shift real tokens without packing them, and set padding to zero."""
    if packing.steps is None:
        return _clear(x, packing)
    if packing.length is None:
        return _take_known(x, packing.steps, back)
    place = _range(x) if packing.place is None else packing.place
    return _clear(take(x, _tokens(_shifted(place, packing, not back), packing)), packing)


def take(x, tokens):
    """Take a token for every channel: `out[b, n, c] = x[b, tokens[b, n, c], c]`."""
    batch, length, channels = tf.unstack(tf.shape(x))
    places = tokens * channels + tf.range(channels)
    return tf.gather(tf.reshape(x, (batch, length * channels)), places, batch_dims=1)


def _take_known(x, steps, back=False):
    _, tokens, channels = x.shape
    rows = tf.reshape(x, (-1, tokens * channels))
    places = shift_places(steps, tokens, back)
    return tf.reshape(tf.gather(rows, places, axis=1), (-1, tokens, channels))


def _shifted(place, packing, back=False):
    """Places of real tokens, (batch, tokens), moved by the steps of every channel within these."""
    place, length = place[:, :, None], packing.length
    # Less than once around: one addition is all that a division would do.
    if back:
        moved = place - packing.steps
        moved = tf.where(moved < 0, moved + length, moved)
    else:
        moved = place + packing.steps
        moved = tf.where(moved < length, moved, moved - length)
    return tf.where(place < length, moved, place)


def _steps(plan, length, most):
    """Steps of every sample. Channel 0 of an aligned plan is its own leader: it is not shifted."""
    if plan.steps is None:
        return None
    steps = steps_modulo(plan.steps, length, most)
    return steps * np.minimum(np.arange(steps.shape[-1]), 1) if plan.aligned else steps


def _tokens(places, packing):
    return places if packing.token is None else tf.gather(packing.token, places, batch_dims=1)


def _clear(x, packing):
    return x if packing.mask is None else tf.where(packing.mask[:, :, None], x, tf.zeros_like(x))


def _range(x):
    return tf.range(tf.shape(x)[1])[None]
