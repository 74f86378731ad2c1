"""Circular shifts of a whole batch in JAX, every channel by its own step.

As a kind of permutation it needs no trace, for the data decide nothing.
"""

import jax
import jax.numpy as jnp
from jax import lax

from keras_permix.ops.backend.jax.packing import UNIQUE, clear, pack, unpack
from keras_permix.ops.backend.plan import shift_places


def alone_on_cpu():
    """Whether XLA compiles for one CPU, with nothing to divide."""
    return jax.default_backend() == "cpu" and jax.device_count() == 1


def values(x, real, plan):
    return _shift(x, real, plan)


def values_and_trace(x, real, plan):
    return _shift(x, real, plan), None


def take(x, real, trace, plan):
    return _shift(x, real, plan)


def undo(grad, real, trace, plan):
    return _shift(grad, real, plan, back=True)


def shift_to_front(x, real, plan):
    """Bring the real tokens to the front, and shift them."""
    if real is None:
        return _shift_all(x, plan.steps)
    if real.steps is None:
        return pack(x, real)

    def take(packed):
        return _take(packed, real, jnp.arange(x.shape[1], dtype="int32")[None])

    return _by_an_edge(real.in_front, take, lambda x: take(pack(x, real)), x)


def unshift_from_front(x, real, plan):
    """The inverse of `shift_to_front`; what is not real becomes 0."""
    if real is None:
        return _shift_all(x, plan.steps, back=True)
    if real.steps is None:
        return unpack(x, real)

    def spread(packed):
        return clear(_take(packed, real, real.places, back=True), real)

    return _by_an_edge(real.in_front, spread, spread, x)


def source_of(place, steps, length):
    """Which token comes to a place: those before the first come from the end of the real ones."""
    source = place - steps
    source = jnp.where(source < 0, source + length, source)
    return jnp.where(place < length, source, place)


def take_samples(x, tokens):
    """Take for every place and channel the sample of one token: both are (tokens, channels)."""
    return jax.vmap(lambda x, token: x.at[token].get(**UNIQUE), (1, 1), 1)(x, tokens)


def _shift(x, real, plan, back=False):
    """Shift every token; what is not real becomes 0."""
    if real is None:
        return _shift_all(x, plan.steps, back)
    if real.steps is None:
        return clear(x, real)

    def spread(packed):
        return clear(_take(packed, real, real.places, back), real)

    return _by_an_edge(real.in_front, spread, lambda x: spread(pack(x, real)), x)


def _take(packed, real, places, back=False):
    """What comes to these places, (batch, tokens), of packed tokens."""
    steps, lengths = real.steps, real.lengths[:, None]
    steps = jnp.where(steps > 0, lengths - steps, 0) if back else steps
    return jax.vmap(take_samples)(
        packed, source_of(places[:, :, None], steps[:, None], lengths[:, None])
    )


def _shift_all(x, steps, back=False):
    if steps is None:
        return x
    places = shift_places(steps, x.shape[1], back)
    take = jax.vmap(lambda x: x.ravel().at[places].get(**UNIQUE).reshape(x.shape))
    return _by_an_edge((x[:1, :1, :1] > 0).any(), take, take, x)


def _by_an_edge(condition, one, other, x):
    """Call `one` or `other`, which give the same, as something that XLA does not fuse.

    XLA for CPUs fuses a gather with what comes after, and gathers again for each of the uses. A
    conditional is an edge that it keeps; `lax.optimization_barrier` is not. The condition depends
    on all samples, so several devices would have to wait for each other: they call `other`.
    """
    return lax.cond(condition, one, other, x) if alone_on_cpu() else other(x)
