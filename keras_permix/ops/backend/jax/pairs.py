"""Sort groups of two in JAX, by swapping pairs of a whole batch; residuals mark swapped pairs."""

import jax.numpy as jnp
from jax import lax

from keras_permix.ops.backend.jax.keys import to_ranks
from keras_permix.ops.backend.jax.shift import pack, shift_to_front, unpack, unshift_from_front


def values(x, real, plan):
    return values_and_residuals(x, real, plan)[0]


def values_and_residuals(x, real, plan):
    shifted = shift_to_front(x, real, plan)
    marked = _descends(shifted)
    if plan.aligned:
        marked ^= _descends(pack(x[..., :1], real))
    if real is not None:  # the last of an odd number of tokens, and padding, stay
        second = 2 * jnp.arange(marked.shape[1])[:, None] + 1
        marked &= second < real.lengths[:, None, None]
    return unpack(_swap(shifted, marked), real), marked


def take(x, real, marked, plan):
    return unpack(_swap(shift_to_front(x, real, plan), marked), real)


def undo(grad, real, marked, plan):
    return unshift_from_front(_swap(pack(grad, real), marked), real, plan)


def _swap(x, marked):
    """Swap the marked pairs. Uses bits, because a ^ (a ^ b) is b."""
    bits = _pairs(lax.bitcast_convert_type(x, f"int{8 * x.dtype.itemsize}"))
    change = jnp.where(marked, bits[:, :, 0] ^ bits[:, :, 1], 0)
    return lax.bitcast_convert_type(bits ^ change[:, :, None], x.dtype).reshape(x.shape)


def _descends(x):
    pairs = _pairs(to_ranks(x))
    return pairs[:, :, 1] < pairs[:, :, 0]


def _pairs(x):
    return x.reshape(x.shape[0], x.shape[1] // 2, 2, x.shape[2])
