"""Shifts, and groups of two, of a whole batch in JAX: no sort is needed.

A shift is a gather by a table known in advance. Pairs are compared and swapped; all that the
gradient needs is which were.
"""

import jax.numpy as jnp
from jax import lax

from keras_permix.ops.backend.jax.keys import is_minus_zero, to_key
from keras_permix.ops.backend.plan import shift_places


def shift(x, steps, back=False):
    """Roll every channel of `x`, (batch, tokens, channels), by its own step."""
    places = shift_places(steps, x.shape[1], back)
    rows = x.reshape(len(x), x.shape[1] * x.shape[2]).at[:, places]
    return rows.get(mode="promise_in_bounds", unique_indices=True).reshape(x.shape)


def order(x, leader):
    """Sort pairs of tokens, or give them the ranks of `leader`; also return which were swapped."""
    marked = _descends(x)
    if leader is not None:
        marked ^= _descends(leader)
    return swap(x, marked), marked


def swap(x, marked):
    """Change the places of the pairs that are marked. As bits, since a ^ (a ^ b) is b."""
    bits = _pairs(lax.bitcast_convert_type(x, f"int{8 * x.dtype.itemsize}"))
    change = jnp.where(marked, bits[:, :, 0] ^ bits[:, :, 1], 0)
    return lax.bitcast_convert_type(bits ^ change[:, :, None], x.dtype).reshape(x.shape)


def _descends(x):
    """Which pairs descend. Compared as integers, since XLA takes subnormal floats for zeros."""
    key = to_key(x)
    pairs = _pairs(key + is_minus_zero(key, x.dtype).astype(key.dtype))
    return pairs[:, :, 1] < pairs[:, :, 0]


def _pairs(x):
    return x.reshape(len(x), x.shape[1] // 2, 2, x.shape[2])
