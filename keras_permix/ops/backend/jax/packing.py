"""Real tokens packed to the front of their sample, in JAX: by tables made from sums, not sorts."""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from keras_permix.ops.reference.packing import steps_modulo

UNIQUE = dict(mode="promise_in_bounds", unique_indices=True, wrap_negative_indices=False)


class Real(NamedTuple):
    """Mark the real tokens, with the tables that bring them to the front and back."""

    mask: jax.Array  # (batch, tokens), booleans
    lengths: jax.Array  # (batch,), the number of real tokens
    places: jax.Array  # (batch, tokens), where each token goes; the others go behind the real ones
    order: jax.Array  # (batch, tokens), the token that goes to each place
    steps: jax.Array | None  # (batch, channels), from 0 to the number of real tokens
    back: jax.Array | None  # the steps back


def find_real(mask, plan):
    mask = mask.astype(bool)
    token = jnp.arange(mask.shape[1], dtype="int32")
    before = jnp.cumsum(mask, axis=1, dtype="int32")
    lengths = jnp.sum(mask, axis=1, dtype="int32")
    places = jnp.where(mask, before - 1, lengths[:, None] + token - before)
    order = jax.vmap(lambda places: jnp.zeros_like(token).at[places].set(token, **UNIQUE))(places)
    steps = _steps(plan, lengths, mask.shape[1])
    back = None if steps is None else jnp.where(steps > 0, lengths[:, None] - steps, 0)
    return Real(mask, lengths, places, order, steps, back)


def pack(x, real):
    return x if real is None else _take_tokens(x, real.order)


def unpack(x, real):
    """Bring packed tokens back; what is not real becomes 0."""
    return x if real is None else clear(_take_tokens(x, real.places), real)


def clear(x, real):
    return jnp.where(real.mask[..., None], x, jnp.zeros((), x.dtype))


def _steps(plan, lengths, most):
    """Steps of every sample. Channel 0 of an aligned plan is its own leader: it is not shifted."""
    if plan.steps is None:
        return None
    steps = steps_modulo(plan.steps, lengths[:, None], most if isinstance(most, int) else None)
    return steps.at[:, 0].set(0) if plan.aligned else steps


def _take_tokens(x, table):
    return jax.vmap(lambda x, table: x.at[table].get(**UNIQUE))(x, table)
