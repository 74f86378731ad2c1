"""Circular shifts of a whole batch in JAX, every channel by its own step.

As a kind of permutation it needs no trace, for the data decide nothing.
"""

import jax
import jax.numpy as jnp

from keras_permix.ops.backend.jax.packing import UNIQUE, clear, pack, unpack
from keras_permix.ops.backend.jax.turns import apart, each
from keras_permix.ops.backend.plan import shift_places


def values(x, real, plan):
    if real is None:
        return _shift_all(x, plan.steps)
    return clear(x, real) if real.steps is None else _spread(pack(x, real), real)


def values_and_trace(x, real, plan):
    return values(x, real, plan), None


def take(x, real, trace, plan):
    return values(x, real, plan)


def undo(grad, real, trace, plan):
    return unshift_from_front(pack(grad, real), real, plan)


def shift_to_front(x, real, plan):
    """Bring the real tokens to the front, and shift them."""
    if real is None:
        return _shift_all(x, plan.steps)
    if real.steps is None:
        return pack(x, real)
    return each(shift_sample, pack(x, real), real.steps, real.lengths)


def unshift_from_front(x, real, plan):
    """The inverse of `shift_to_front`; what is not real becomes 0."""
    if real is None:
        return _shift_all(x, plan.steps, back=True)
    if real.steps is None:
        return unpack(x, real)
    return unpack(each(shift_sample, x, real.back, real.lengths), real)


def shift_sample(x, steps, length):
    """Shift the first tokens of one sample, (tokens, channels)."""
    token = jnp.arange(x.shape[0], dtype="int32")[:, None]
    return take_values(x, source_of(token, steps, length))


def source_of(place, steps, length):
    """Which token comes to a place: those before the first come from the end of the real ones."""
    source = place - steps
    source = jnp.where(source < 0, source + length, source)
    return jnp.where(place < length, source, place)


def take_values(x, tokens):
    """Take for every place and channel the value of one token: both are (tokens, channels)."""
    return x.at[tokens, jnp.arange(x.shape[1])].get(**UNIQUE)


def _spread(packed, real):
    """Shift packed tokens, and bring them to their places; what is not real becomes 0."""
    places, lengths = real.places[:, :, None], real.lengths[:, None, None]
    source = source_of(places, real.steps[:, None], lengths)
    return clear(jax.vmap(take_values)(packed, source), real)


def _shift_all(x, steps, back=False):
    if steps is None:
        return x
    places = shift_places(steps, x.shape[1], back)
    return apart(jax.vmap(lambda x: x.ravel().at[places].get(**UNIQUE).reshape(x.shape)), x)
