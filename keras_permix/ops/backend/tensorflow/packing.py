"""Real tokens brought to the front, shifted among themselves, and brought back, in TensorFlow.

Shifting is a gather by a table. It is known in advance, or made at run time where a mask or an
unknown number of tokens decides; the same gather then packs, or unpacks.
"""

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from keras_permix.ops.backend.plan import shift_places

DIGIT = 1 << 31  # of steps that no tensor could hold


class Packing(NamedTuple):
    """Places of tokens: the real ones in front and in order, then padding."""

    length: tf.Tensor  # (batch, 1, 1), the number of real tokens
    mask: tf.Tensor | None  # (batch, tokens), which tokens are real; None for all of them
    place: tf.Tensor | None  # (batch, tokens), where each token goes; None for nowhere
    token: tf.Tensor | None  # (batch, tokens), which token goes to each place


@dataclass(frozen=True)
class Scheduled:
    """The steps of a `ShiftSchedule`, forward or back, for numbers of tokens known at run time."""

    schedule: Any
    aligned: bool  # to channel 0, which is then not shifted
    sign: int = 1

    def remainders(self, length, tokens):
        steps = self.schedule.steps_for(length, tokens)
        if isinstance(steps, tuple):
            steps = (0, *steps[1:]) if self.aligned else steps
            return remainders(tuple(self.sign * step for step in steps), length)
        rest = self.sign * steps % length
        return rest * tf.cast(tf.range(tf.shape(rest)[-1]) >= int(self.aligned), "int32")


ALL = Packing(None, None, None, None)  # of a known number of tokens


def find_packing(x, mask):
    """The packing of `x`, (batch, tokens, channels)."""
    if mask is None and x.shape[1] is not None:
        return ALL
    batch, tokens = tf.unstack(tf.shape(x)[:2])
    if mask is None:
        return ALL._replace(length=tf.fill((batch, 1, 1), tokens))
    real = tf.cast(mask, "int32")
    length = tf.reduce_sum(real, axis=1, keepdims=True)
    behind = length + tf.cumsum(1 - real, axis=1)
    place = tf.where(mask, tf.cumsum(real, axis=1), behind) - 1
    start = tokens * tf.range(batch)[:, None]
    token = tf.math.invert_permutation(tf.reshape(start + place, [-1]))
    token = tf.reshape(token, (batch, tokens)) - start
    return Packing(length[:, :, None], mask, place, token)


def pack(x, packing, steps=None):
    """Bring tokens to their places, and shift every channel by its step."""
    if steps is None:
        return x if packing.token is None else tf.gather(x, packing.token, batch_dims=1)
    if packing.length is None:
        return _take_known(x, shift_places(steps, x.shape[1]))
    return take(x, _tokens(_shifted(_range(x), packing, negative(steps)), packing))


def unpack(x, packing, steps=None):
    """Undo `pack`, and set padding to zero."""
    if steps is None:
        out = x if packing.place is None else tf.gather(x, packing.place, batch_dims=1)
    elif packing.length is None:
        return _take_known(x, shift_places(steps, x.shape[1], back=True))
    else:
        place = _range(x) if packing.place is None else packing.place
        out = take(x, _shifted(place, packing, steps))
    return _clear(out, packing)


def shift(x, packing, steps=None):
    """Shift real tokens without packing them, and set padding to zero."""
    if steps is None or packing.place is None:
        return _clear(pack(x, ALL if steps is None else packing, steps), packing)
    places = _shifted(packing.place, packing, negative(steps))
    return _clear(take(x, _tokens(places, packing)), packing)


def take(x, tokens):
    """Take a token for every channel: `out[b, n, c] = x[b, tokens[b, n, c], c]`."""
    batch, length, channels = tf.unstack(tf.shape(x))
    places = tokens * channels + tf.range(channels)
    return tf.gather(tf.reshape(x, (batch, length * channels)), places, batch_dims=1)


def remainders(steps, length):
    """Steps, Python integers of any size, modulo `length`, a tensor."""
    digits, length = [], tf.cast(length, "int64")
    while not all(-DIGIT <= step < DIGIT for step in steps):
        steps, digit = zip(*(divmod(step, DIGIT) for step in steps), strict=True)
        digits.append(digit)
    rest = np.array(steps) % length
    for digit in reversed(digits):
        rest = (rest * DIGIT + np.array(digit)) % length
    return tf.cast(rest, "int32")


def _take_known(x, places):
    _, tokens, channels = x.shape
    rows = tf.reshape(x, (-1, tokens * channels))
    return tf.reshape(tf.gather(rows, places, axis=1), (-1, tokens, channels))


def _shifted(place, packing, steps):
    """Places of real tokens, (batch, tokens), moved by steps within these: one per channel."""
    place, length = place[:, :, None], packing.length
    # Below twice the length: one subtraction is all that a division would do.
    divisor = tf.maximum(length, 1)
    if isinstance(steps, Scheduled):
        moved = place + steps.remainders(
            divisor, None if packing.mask is None else packing.mask.shape[1]
        )
    else:
        moved = place + remainders(steps, divisor)
    moved = tf.where(moved < length, moved, moved - length)
    return tf.where(place < length, moved, place)


def _tokens(places, packing):
    return places if packing.token is None else tf.gather(packing.token, places, batch_dims=1)


def _clear(x, packing):
    return x if packing.mask is None else tf.where(packing.mask[:, :, None], x, tf.zeros_like(x))


def _range(x):
    return tf.range(tf.shape(x)[1])[None]


def negative(steps):
    """The steps back."""
    if isinstance(steps, Scheduled):
        return replace(steps, sign=-steps.sign)
    return tuple(-step for step in steps)
