"""Permute tokens on TPUs in plain XLA, by rolls and unstable sorts of integers, without gathers."""

from functools import reduce
from operator import or_

import jax.numpy as jnp
import numpy as np
from jax import lax

from keras_permix.ops.backend.jax.keys import comparable, is_minus_zero, mirror, to_key


def shift(bits, steps):
    """Shift by one roll and one select for each bit of the steps."""
    used, steps, step = reduce(or_, steps), np.array(steps), 1
    while step <= used:
        if step & used:
            bits = jnp.where((steps & step) != 0, jnp.roll(bits, step, axis=1), bits)
        step *= 2
    return bits


def sort_pairs(bits, steps, floating):
    bits = shift(bits, steps) if steps else bits
    key = comparable(bits, mirror(bits, floating))
    swap = key[:, 1::2] < key[:, ::2]
    return _swap(bits, swap), swap


def unsort_pairs(bits, swap, steps):
    bits = _swap(bits, swap)
    return shift(bits, steps) if steps else bits


def sort(groups, floating):
    signs = mirror(groups, floating)
    [key] = _sort([to_key(groups, signs)], keys=1)
    return to_key(key, signs)


def sort_with_positions(groups, floating):
    signs = mirror(groups, floating)
    key = to_key(groups, signs)
    minus = is_minus_zero(key, signs)  # -0.0 must equal 0.0
    low = 2 * lax.broadcasted_iota("int32", groups.shape, 2) + minus.astype("int32")
    key, low = _sort([(key + minus).astype("int32"), low], keys=2)
    key = (key - (low & 1)).astype(groups.dtype)
    small = "int16" if groups.shape[2] < 1 << 15 else "int32"
    return to_key(key, signs), (low >> 1).astype(small)


def unsort(groups, positions):
    return _sort([positions.astype("int32"), groups], keys=1)[1]


def _sort(operands, keys):
    """Sort groups along their tokens.

    Groups are joined with the batch axis; separately, XLA may place them innermost, padded to 128.
    """
    shape = operands[0].shape
    lines = [array.reshape(-1, *shape[2:]) for array in operands]
    lines = lax.sort(lines, dimension=1, num_keys=keys, is_stable=False)
    return [array.reshape(shape) for array in lines]


def _swap(bits, swap):
    first, second = bits[:, ::2], bits[:, 1::2]
    pairs = jnp.stack([jnp.where(swap, second, first), jnp.where(swap, first, second)], axis=2)
    return pairs.reshape(bits.shape)
