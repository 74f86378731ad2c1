"""Group sorts of one sample, (tokens, channels), in JAX.

Groups go through a bitonic network along the tokens, channels innermost, as integers in the order
of the values. When a gradient is wanted, the integers carry the places below the values, which
makes the sort stable and tells where everything came from.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from keras_permix.ops.backend.jax.keys import from_key, is_minus_zero, to_key
from keras_permix.ops.backend.plan import power_of_two, shift_places, small_integer
from keras_permix.ops.reference import network

UNIQUE = dict(mode="promise_in_bounds", unique_indices=True)


def each(function, *arrays):
    """Apply to each entry of the first axis; on a CPU in turn, so that it stays in the cache."""
    if not on_cpu():
        return jax.vmap(function)(*arrays)
    return lax.map(lambda entries: function(*entries), arrays)


def on_cpu():
    return jax.default_backend() == "cpu"


def values(x, plan):
    """Permute one sample."""
    key = _sort(to_key(_shift(x, plan)), plan)
    return _align(from_key(key, x.dtype), x, plan)


def values_and_trace(x, plan):
    """Permute one sample, and return what `undo` must know of the data, as small as it can be."""
    out, place = _sort_with_places(_shift(x, plan), plan)
    place += _group_starts(len(x), plan)
    out, place = _align(out, x, plan), _align(place, x, plan)
    if plan.steps is not None:
        place = (place - np.array(plan.steps, "int32")) % len(x)
    return out, place.astype(small_integer(len(x)))


def undo(grad, trace, plan):
    """Permute the gradient of one sample back: the inverse of `values`."""
    tokens, channels = grad.shape
    place = trace.astype("int32") * channels + np.arange(channels, dtype="int32")
    empty = jnp.zeros(grad.size, grad.dtype)
    return empty.at[place.ravel()].set(grad.ravel(), **UNIQUE).reshape(grad.shape)


def _shift(x, plan):
    if plan.steps is None:
        return x
    return x.ravel().at[shift_places(plan.steps, len(x))].get(**UNIQUE).reshape(x.shape)


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
    key, dtype = to_key(x), x.dtype
    place = np.arange(len(x))[:, None] % plan.group_size
    narrow = key.dtype.itemsize <= 2 and plan.group_size <= 1 << 15
    wide, bits = ("int32", 16) if narrow else ("int64", 32)
    # -0.0 is to equal 0.0; a bit below the place remembers its sign.
    minus = is_minus_zero(key, dtype)
    with jax.enable_x64(not narrow or jax.config.jax_enable_x64):
        low = 2 * place.astype(wide) + minus.astype(wide)
        packed = ((key + minus.astype(key.dtype)).astype(wide) << bits) | low
        packed = _sort(packed, plan)
        low, key = packed & ((1 << bits) - 1), (packed >> bits).astype(key.dtype)
        minus, place = (low & 1).astype(key.dtype), (low >> 1).astype("int32")
    return from_key(key - minus, dtype), place


def _sort(key, plan):
    """Sort integers, (tokens, channels), in groups along the tokens."""
    tokens, channels = key.shape
    turn = 0 if plan.descending is None else -np.array(plan.descending).astype(key.dtype)
    largest = jnp.iinfo(key.dtype).max
    size, groups = plan.group_size, -(-tokens // plan.group_size)
    runs = _fill_up(key ^ turn, groups * size, 0, largest).reshape(groups, size, channels)
    runs = network.sort(_fill_up(runs, power_of_two(size), 1, largest), on_cpu())[:, :size]
    return runs.reshape(groups * size, channels)[:tokens] ^ turn


def _fill_up(x, length, axis, value):
    widths = [(0, 0, 0)] * x.ndim
    widths[axis] = (0, length - x.shape[axis], 0)
    return lax.pad(x, jnp.array(value, x.dtype), widths)
