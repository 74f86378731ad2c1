"""Real tokens packed to the front of their sample, in JAX: by tables made from sums, not sorts."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

UNIQUE = dict(mode="promise_in_bounds", unique_indices=True, wrap_negative_indices=False)


class Real(NamedTuple):
    """Which tokens are real, and the tables that bring them to the front and back."""

    mask: jax.Array  # (batch, tokens), booleans
    lengths: jax.Array  # (batch,), the number of real tokens
    places: jax.Array  # (batch, tokens), where each token goes; the others go behind the real ones
    order: jax.Array  # (batch, tokens), the token that goes to each place
    steps: jax.Array | None  # (batch, channels), from 0 to the number of real tokens

    @property
    def in_front(self):
        """Whether all real tokens are where they are to go."""
        return jnp.all(self.mask == (_tokens(self.mask) < self.lengths[:, None]))


def find_real(mask, steps):
    mask, token = mask.astype(bool), _tokens(mask)
    before = jnp.cumsum(mask, axis=1, dtype="int32")
    lengths = before[:, -1]
    places = jnp.where(mask, before - 1, lengths[:, None] + token - before)
    order = jax.vmap(lambda places: jnp.zeros_like(token).at[places].set(token, **UNIQUE))(places)
    steps = remainders(steps, lengths, mask.shape[1]) if steps and any(steps) else None
    return Real(mask, lengths, places, order, steps)


def pack(x, real):
    return x if real is None else _take_rows(x, real.order)


def unpack(x, real):
    """Bring packed tokens back; what is not real becomes 0."""
    return x if real is None else clear(_take_rows(x, real.places), real)


def clear(x, real):
    return jnp.where(real.mask[..., None], x, jnp.zeros((), x.dtype))


def remainders(steps, lengths, most):
    """Integers of any size modulo the lengths, which are at most `most`: (batch, channels).

    By Horner's rule over digits that are so small that nothing leaves 32 bits.
    """
    lengths = jnp.maximum(lengths, 1)[:, None]
    digit_bits = 30 - most.bit_length()
    digits = [np.array(steps, object)]
    while any(abs(step) >> 30 for step in digits[-1]):
        digits[-1:] = [digits[-1] & ((1 << digit_bits) - 1), digits[-1] >> digit_bits]
    remainder = 0
    for digit in reversed(digits):
        remainder = ((remainder << digit_bits) + digit.astype("int32")) % lengths
    return remainder


def _take_rows(x, table):
    return jax.vmap(lambda x, table: x.at[table].get(**UNIQUE))(x, table)


def _tokens(mask):
    return jnp.arange(mask.shape[1], dtype="int32")
