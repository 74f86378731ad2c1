"""Permutations of one sample, (tokens, channels), in JAX.

Three ways: a shift is a gather by a table known in advance; groups of two are compared and
swapped; larger groups go through a bitonic network along the tokens, channels innermost, as
integers in the order of the values. When a gradient is wanted, the integers carry the places
below the values, which makes the sort stable and tells where everything came from.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from keras_permix.ops._tables import network, power_of_two, shift_places, small_integer

UNIQUE = dict(mode="promise_in_bounds", unique_indices=True)


def values(x, plan):
    """Permute one sample."""
    if plan.group_size == 1:
        return _shift(x, plan)
    key = _sort(_to_key(_shift(x, plan)), plan)
    return _align(_from_key(key, x.dtype), x, plan)


def values_and_trace(x, plan):
    """Permute one sample, and return what `undo` must know of the data, as small as it can be."""
    if plan.group_size == 1:
        return _shift(x, plan), None
    if plan.in_pairs(len(x)):
        return order_pairs(_shift(x, plan), x, plan)
    out, place = _sort_with_places(_shift(x, plan), plan)
    place += _group_starts(len(x), plan)
    out, place = _align(out, x, plan), _align(place, x, plan)
    if plan.steps is not None:
        place = (place - np.array(plan.steps, "int32")) % len(x)
    return out, place.astype(small_integer(len(x)))


def undo(grad, trace, plan):
    """Permute the gradient of one sample back: the inverse of `values`."""
    tokens, channels = grad.shape
    if plan.group_size == 1:
        return _take(grad, shift_places(plan.steps, tokens, back=True))
    place = trace.astype("int32") * channels + np.arange(channels, dtype="int32")
    empty = jnp.zeros(grad.size, grad.dtype)
    return empty.at[place.ravel()].set(grad.ravel(), **UNIQUE).reshape(grad.shape)


def order_pairs(shifted, x, plan):
    """Sort pairs of a sample that has been shifted; also return which were swapped."""
    swap = _out_of_order(shifted)
    if plan.aligned:
        swap ^= _out_of_order(x[:, :1])
    return swap_pairs(shifted, swap), swap


def swap_pairs(x, swap):
    """Change the places of the pairs that `swap` marks. As bits, since a ^ (a ^ b) is b."""
    bits = lax.bitcast_convert_type(x, f"int{8 * x.dtype.itemsize}").reshape(-1, 2, x.shape[1])
    change = jnp.where(swap, bits[:, 0] ^ bits[:, 1], 0)
    return lax.bitcast_convert_type(bits ^ change[:, None], x.dtype).reshape(x.shape)


def _shift(x, plan):
    return x if plan.steps is None else _take(x, shift_places(plan.steps, len(x)))


def _take(x, places):
    return x.ravel().at[places].get(**UNIQUE).reshape(x.shape)


def _out_of_order(x):
    """Which pairs descend. Compared as integers, since XLA takes subnormal floats for zeros."""
    key = _to_key(x)
    key += _is_minus_zero(key, x.dtype).astype(key.dtype)
    pairs = key.reshape(-1, 2, x.shape[1])
    return pairs[:, 1] < pairs[:, 0]


def _align(x, unsorted, plan):
    """Give the sorted tokens of every group the ranks of the group of channel 0."""
    if not plan.aligned:
        return x
    _, place = _sort_with_places(unsorted[:, :1], plan)
    place = (place + _group_starts(len(x), plan))[:, 0]
    rank = jnp.zeros_like(place).at[place].set(jnp.arange(len(x), dtype="int32"), **UNIQUE)
    return x.at[rank].get(**UNIQUE)


def _group_starts(tokens, plan):
    return (np.arange(tokens, dtype="int32") // plan.group_size * plan.group_size)[:, None]


def _sort_with_places(x, plan):
    """Sort stably; also return the place in its group that each value came from."""
    key, dtype = _to_key(x), x.dtype
    place = np.arange(len(x))[:, None] % plan.group_size
    narrow = key.dtype.itemsize <= 2 and plan.group_size <= 1 << 15
    wide, bits = ("int32", 16) if narrow else ("int64", 32)
    # -0.0 is to equal 0.0; a bit below the place remembers its sign.
    minus = _is_minus_zero(key, dtype)
    with jax.enable_x64(not narrow or jax.config.jax_enable_x64):
        low = 2 * place.astype(wide) + minus.astype(wide)
        packed = ((key + minus.astype(key.dtype)).astype(wide) << bits) | low
        packed = _sort(packed, plan)
        low, key = packed & ((1 << bits) - 1), (packed >> bits).astype(key.dtype)
        minus, place = (low & 1).astype(key.dtype), (low >> 1).astype("int32")
    return _from_key(key - minus, dtype), place


def _sort(key, plan):
    """Sort integers, (tokens, channels), in groups along the tokens."""
    tokens, channels = key.shape
    turn = 0 if plan.descending is None else -np.array(plan.descending).astype(key.dtype)
    largest = jnp.iinfo(key.dtype).max
    size, groups = plan.group_size, -(-tokens // plan.group_size)
    runs = _fill_up(key ^ turn, groups * size, 0, largest).reshape(groups, size, channels)
    runs = _run_network(_fill_up(runs, power_of_two(size), 1, largest))[:, :size]
    return runs.reshape(groups * size, channels)[:tokens] ^ turn


def _fill_up(x, length, axis, value):
    widths = [(0, 0, 0)] * x.ndim
    widths[axis] = (0, length - x.shape[axis], 0)
    return lax.pad(x, jnp.array(value, x.dtype), widths)


def _run_network(runs):
    for size, flip in network(runs.shape[1]):
        blocks = runs.reshape(runs.shape[0], -1, 2, size // 2, runs.shape[2])
        first, second = blocks[:, :, 0], blocks[:, :, 1]
        second = second[:, :, ::-1] if flip else second
        low, high = jnp.minimum(first, second), jnp.maximum(first, second)
        high = high[:, :, ::-1] if flip else high
        runs = jnp.stack([low, high], axis=2).reshape(runs.shape)
    return runs


def _to_key(x):
    """Signed integers in the order of the values."""
    if jnp.issubdtype(x.dtype, jnp.unsignedinteger):
        return x.astype(f"int{8 * x.dtype.itemsize * 2}")
    if jnp.issubdtype(x.dtype, jnp.signedinteger):
        return x
    bits = lax.bitcast_convert_type(x, f"int{8 * x.dtype.itemsize}")
    return _mirror_negatives(bits)


def _from_key(key, dtype):
    if jnp.issubdtype(dtype, jnp.integer):
        return key.astype(dtype)
    return lax.bitcast_convert_type(_mirror_negatives(key), dtype)


def _is_minus_zero(key, dtype):
    return (key == -1) & jnp.issubdtype(dtype, jnp.floating)


def _mirror_negatives(bits):
    """Floats of the sign bit ascend as their integers descend; the mapping is its own inverse."""
    return bits ^ ((bits >> (8 * bits.dtype.itemsize - 1)) & jnp.iinfo(bits.dtype).max)
