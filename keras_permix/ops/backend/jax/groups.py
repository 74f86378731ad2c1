"""Sort groups in JAX, for each sample (tokens, channels).

Groups are sorted as integers in the order of the values, by a bitonic network along the tokens.
When a gradient is needed, the low bits of the integers hold the positions. This makes the sort
stable and returns the source of each value.

With a mask, real tokens come first, `length` is their number, and `steps` are those of the sample.
Padding sorts last and keeps its positions. The same code runs if `jax.export` leaves the number of
tokens open. XLA then sorts groups of all tokens, because the network requires a known size.
"""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from keras_permix.ops.backend.jax.keys import (
    from_bits,
    is_floating,
    is_minus_zero,
    mirror,
    to_bits,
    to_key,
)
from keras_permix.ops.backend.jax.runtime import alone_on_cpu, each
from keras_permix.ops.backend.jax.shift import UNIQUE, pack, source_of, take_values, unpack
from keras_permix.ops.backend.plan import power_of_two, shift_positions, small_integer
from keras_permix.ops.reference import network


def values(x, real, plan):
    return unpack(each(partial(_values, plan=plan), pack(x, real), *_own(real)), real)


def values_and_residuals(x, real, plan):
    sort = partial(_values_and_residuals, plan=plan)
    out, residuals = each(sort, pack(x, real), *_own(real))
    return unpack(out, real), residuals


def take(x, real, residuals, plan):
    return unpack(each(_take, pack(x, real), residuals), real)


def undo(grad, real, residuals, plan):
    return unpack(each(_undo, pack(grad, real), residuals), real)


def cut(x, size, fill):
    """Cut tokens into groups, (..., groups, size, channels), the last padded with `fill`."""
    x = fill_up(x, -(-x.shape[-2] // size) * size, -2, fill)
    return x.reshape(*x.shape[:-2], -1, size, x.shape[-1])


def join(groups, tokens):
    """Undo `cut`, for `tokens` tokens."""
    *batch, count, size, channels = groups.shape
    return groups.reshape(*batch, count * size, channels)[..., :tokens, :]


def fill_up(x, length, axis, value):
    widths = [(0, 0, 0)] * x.ndim
    widths[axis] = (0, length - x.shape[axis], 0)
    return lax.pad(x, jnp.array(value, x.dtype), widths)


def _own(real):
    """Return the arrays that differ between samples."""
    return () if real is None else (real.steps, real.lengths)


def _values(x, steps=None, length=None, *, plan):
    bits = to_bits(x)
    signs = mirror(bits, is_floating(x.dtype))
    key = _sort(to_key(_shift(bits, plan, steps, length), signs), plan, length)
    return _align(from_bits(to_key(key, signs), x.dtype), x, plan, length)


def _values_and_residuals(x, steps=None, length=None, *, plan):
    """Permute, and return the source of each value in the smallest dtype."""
    out, position = _sort_with_positions(_shift(x, plan, steps, length), plan, length)
    out, position = (_align(array, x, plan, length) for array in (out, position))
    position = _unshifted(position, plan, steps, length)
    return out, position.astype(small_integer(x.shape[0]))


def _take(x, residuals):
    return take_values(x, residuals.astype("int32"))


def _undo(grad, residuals):
    tokens, channels = grad.shape
    position = residuals.astype("int32") * channels + np.arange(channels, dtype="int32")
    empty = jnp.zeros(grad.size, grad.dtype)
    return empty.at[position.ravel()].set(grad.ravel(), **UNIQUE).reshape(grad.shape)


def _shift(x, plan, steps, length):
    if length is None:
        positions = plan.steps and shift_positions(plan.steps, len(x))
        return x if positions is None else x.ravel().at[positions].get(**UNIQUE).reshape(x.shape)
    return x if steps is None else take_values(x, source_of(_tokens(x), steps, length))


def _unshifted(position, plan, steps, length):
    """Return the tokens that were shifted to `position`."""
    if length is None:
        return (position - np.array(plan.steps or 0, "int32")) % len(position)
    return position if steps is None else source_of(position, steps, length)


def _tokens(x):
    return jnp.arange(x.shape[0], dtype="int32")[:, None]


def _align(x, unsorted, plan, length):
    """Give the sorted tokens of every group the ranks of the group of channel 0."""
    if not plan.aligned:
        return x
    _, position = _sort_with_positions(unsorted[:, :1], plan, length)
    rank = jnp.zeros_like(position[:, 0]).at[position[:, 0]].set(_tokens(x)[:, 0], **UNIQUE)
    return x.at[rank].get(**UNIQUE)


def _sort_with_positions(x, plan, length):
    """Sort stably; also return the position that each value came from."""
    bits = to_bits(x)
    signs = mirror(bits, is_floating(x.dtype))
    key = to_key(bits, signs)
    token, size = _tokens(x), plan.group_size
    narrow = key.dtype.itemsize <= 2 and size is not None and size <= 1 << 15
    wide, half = ("int32", 16) if narrow else ("int64", 32)
    # -0.0 must equal 0.0; a bit below the position stores its sign.
    minus = is_minus_zero(key, signs)
    with jax.enable_x64(not narrow or jax.config.jax_enable_x64):
        inside = token if size is None else token % size
        low = 2 * inside.astype(wide) + minus.astype(wide)
        packed = _sort(((key + minus).astype(wide) << half) | low, plan, length)
        low, key = packed & ((1 << half) - 1), (packed >> half).astype(key.dtype)
        minus, position = (low & 1).astype(key.dtype), (low >> 1).astype("int32")
    position += token - inside
    if length is not None:
        position = jnp.where(token < length, position, token)
    return from_bits(to_key(key - minus, signs), x.dtype), position


def _sort(key, plan, length):
    """Sort integers, (tokens, channels), in groups along the tokens."""
    tokens, channels = key.shape
    flip = 0 if plan.descending is None else -np.array(plan.descending).astype(key.dtype)
    largest, size = jnp.iinfo(key.dtype).max, plan.group_size
    flipped = key ^ flip
    if length is not None:
        flipped = jnp.where(_tokens(key) < length, flipped, largest)
    if size is None:
        return lax.sort(flipped, dimension=0, is_stable=False) ^ flip
    runs = fill_up(cut(flipped, size, largest), power_of_two(size), 1, largest)
    return join(network.sort(runs, alone_on_cpu())[:, :size], tokens) ^ flip
