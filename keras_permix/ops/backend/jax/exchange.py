"""Swap the maximum of every channel with its first token, in JAX."""

import jax
import jax.numpy as jnp

from keras_permix.ops.backend.jax.keys import is_floating, to_ranks
from keras_permix.ops.backend.jax.permute import permute_as


@jax.jit
def max_exchange(x, mask):
    mask = None if mask is None else mask.astype(bool)[..., None]
    return permute_as(_Exchange, x, mask, None)


class _Exchange:
    """Implement a kind of permutation, which is its own inverse; see `permute.py`."""

    @staticmethod
    def values(x, mask, plan):
        return _exchange(x, mask, _find(x, mask))

    @staticmethod
    def values_and_residuals(x, mask, plan):
        positions = _find(x, mask)
        return _exchange(x, mask, positions), positions

    @staticmethod
    def take(x, mask, positions, plan):
        return _exchange(x, mask, positions)

    undo = take


def _find(x, mask):
    """Return the first real token of every sample, and the largest token of every channel."""
    if mask is None:
        return jnp.zeros((), "int32"), _argmax(_key(x))
    first = _argmax(mask)
    key = _key(x)
    # Padding repeats the first real token, which wins against its copies.
    winner = _argmax(jnp.where(mask, key, _take(key, first)))
    return first, jnp.where(_take(mask, winner), winner, first)


def _exchange(x, mask, positions):
    first, winner = positions
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
