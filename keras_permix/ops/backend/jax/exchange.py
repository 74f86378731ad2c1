"""Swap the maximum of every channel with its first token, in JAX."""

import jax
import jax.numpy as jnp
from jax import lax

from keras_permix.ops.backend.jax.keys import is_floating, to_ranks
from keras_permix.ops.backend.jax.linear import linear


@jax.jit
def max_exchange(x, mask):
    mask = None if mask is None else mask.astype(bool)[..., None]
    known = mask, *_find(lax.stop_gradient(x), mask)
    if not is_floating(x.dtype):
        return _exchange(x, known)
    return linear(_exchange, _exchange, x, known)  # It is its own inverse.


def _find(x, mask):
    """Return the first real token of every sample, and the largest token of every channel."""
    if mask is None:
        return jnp.zeros((), "int32"), _argmax(_key(x))
    first = _argmax(mask)
    key = _key(x)
    # Padding repeats the first real token, which wins against its copies.
    winner = _argmax(jnp.where(mask, key, _take(key, first)))
    return first, jnp.where(_take(mask, winner), winner, first)


def _exchange(x, known):
    mask, first, winner = known
    position = jnp.arange(x.shape[1], dtype="int32")[None, :, None]
    top, start = _take(x, winner), x[:, :1] if mask is None else _take(x, first)
    out = jnp.where(position == first, top, jnp.where(position == winner, start, x))
    return out if mask is None else jnp.where(mask, out, jnp.zeros((), x.dtype))


def _argmax(x):
    return jnp.argmax(x, axis=1, keepdims=True).astype("int32")


def _take(x, position):
    return jnp.take_along_axis(x, position, axis=1, mode="promise_in_bounds")


def _key(x):
    return to_ranks(x) if is_floating(x.dtype) else x
