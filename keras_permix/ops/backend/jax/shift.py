"""Shift each channel circularly by a separate step, and pack real tokens to the front, in JAX.

A shift needs no residuals, because it does not depend on the data. The tables that pack tokens are
made from sums instead of sorts.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from keras_permix.ops.backend.jax.runtime import apart
from keras_permix.ops.backend.plan import shift_positions
from keras_permix.ops.reference.packing import steps_modulo

UNIQUE = dict(mode="promise_in_bounds", unique_indices=True, wrap_negative_indices=False)


class Real(NamedTuple):
    """Mark the real tokens, with the tables that bring them to the front and back."""

    mask: jax.Array  # (batch, tokens), booleans
    lengths: jax.Array  # (batch,), the number of real tokens
    positions: jax.Array  # (batch, tokens), the new position of each token; padding goes last
    order: jax.Array  # (batch, tokens), the token that goes to each position
    steps: jax.Array | None  # (batch, channels), from 0 to the number of real tokens
    back: jax.Array | None  # the steps back


def find_real(mask, plan):
    mask = mask.astype(bool)
    token = jnp.arange(mask.shape[1], dtype="int32")
    before = jnp.cumsum(mask, axis=1, dtype="int32")
    lengths = jnp.sum(mask, axis=1, dtype="int32")
    positions = jnp.where(mask, before - 1, lengths[:, None] + token - before)
    order = jax.vmap(lambda positions: jnp.zeros_like(token).at[positions].set(token, **UNIQUE))(
        positions
    )
    steps = back = None
    if plan.steps is not None:
        most = mask.shape[1] if isinstance(mask.shape[1], int) else None
        steps = steps_modulo(plan.steps, lengths[:, None], most)
        if plan.aligned:  # channel 0 is not shifted
            steps = steps.at[:, 0].set(0)
        back = jnp.where(steps > 0, lengths[:, None] - steps, 0)
    return Real(mask, lengths, positions, order, steps, back)


def pack(x, real):
    return x if real is None else _take_tokens(x, real.order)


def unpack(x, real):
    """Bring packed tokens back; padding becomes 0."""
    return x if real is None else clear(_take_tokens(x, real.positions), real)


def clear(x, real):
    return jnp.where(real.mask[..., None], x, jnp.zeros((), x.dtype))


def _take_tokens(x, table):
    return jax.vmap(lambda x, table: x.at[table].get(**UNIQUE))(x, table)


def values(x, real, plan):
    if real is None:
        return _shift_all(x, plan.steps)
    return _spread(x, real, real.steps)


def values_and_residuals(x, real, plan):
    return values(x, real, plan), None


def take(x, real, residuals, plan):
    return values(x, real, plan)


def undo(grad, real, residuals, plan):
    if real is None:
        return _shift_all(grad, plan.steps, back=True)
    return _spread(grad, real, real.back)


def shift_to_front(x, real, plan):
    """Bring the real tokens to the front, and shift them."""
    if real is None:
        return _shift_all(x, plan.steps)
    if real.steps is None:
        return pack(x, real)
    front = jnp.arange(x.shape[1], dtype="int32")[:, None]
    return _look_up(front, pack(x, real), real, real.steps)


def unshift_from_front(x, real, plan):
    """Undo `shift_to_front`; padding becomes 0."""
    if real is None:
        return _shift_all(x, plan.steps, back=True)
    if real.steps is None:
        return unpack(x, real)
    return _unpack(x, real, real.back)


def source_of(position, steps, length):
    """Return the source of each position, which wraps around within the real tokens."""
    source = position - steps
    source = jnp.where(source < 0, source + length, source)
    return jnp.where(position < length, source, position)


def take_values(x, tokens):
    """Take the value of a token for every position and channel; both are (tokens, channels)."""
    return x.at[tokens, jnp.arange(x.shape[1])].get(**UNIQUE)


def _spread(x, real, steps):
    """Shift the real tokens in place; padding becomes 0."""
    if steps is None:
        return clear(x, real)
    return _unpack(pack(x, real), real, steps)


def _unpack(x, real, steps):
    """Shift packed tokens, and bring them back."""
    return clear(_look_up(real.positions[:, :, None], x, real, steps), real)


def _look_up(positions, x, real, steps):
    """Return the values at positions, (batch, tokens, 1), of shifted packed tokens."""
    source = source_of(positions, steps[:, None], real.lengths[:, None, None])
    return jax.vmap(take_values)(x, source)


def _shift_all(x, steps, back=False):
    if steps is None:
        return x
    positions = shift_positions(steps, x.shape[1], back)
    return apart(jax.vmap(lambda x: x.ravel().at[positions].get(**UNIQUE).reshape(x.shape)), x)
