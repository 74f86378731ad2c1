"""Permutations of one sample, (tokens, channels), in TensorFlow.

Three ways: a shift is a gather by a table known in advance; groups of two are compared and
swapped; larger groups go through a bitonic network along the tokens, channels innermost, as
integers in the order of the values. When a gradient is wanted, the integers carry the places
below the values, which makes the sort stable and tells where everything came from.
"""

import numpy as np
import tensorflow as tf

from keras_permix.ops._tables import network, power_of_two, shift_places, small_integer

xor = tf.bitwise.bitwise_xor


def values(x, plan):
    """Permute one sample."""
    if plan.group_size == 1:
        return _shift(x, plan)
    key = _sort(_to_key(_shift(x, plan)), plan)
    return _align(_from_key(key, x.dtype), x, plan)


def values_and_trace(x, plan):
    """Permute one sample, and return what `undo` must know of the data, as small as it can be."""
    tokens = x.shape[0]
    if plan.group_size == 1:
        return _shift(x, plan), tf.zeros((), trace_dtype(tokens, plan))
    if plan.in_pairs(tokens):
        return order_pairs(_shift(x, plan), x, plan)
    out, place = _sort_with_places(_shift(x, plan), plan)
    place += _group_starts(tokens, plan)
    out, place = _align(out, x, plan), _align(place, x, plan)
    if plan.steps is not None:
        place = (place - np.array(plan.steps, "int32")) % tokens
    return out, tf.cast(place, trace_dtype(tokens, plan))


def trace_dtype(tokens, plan):
    shift_or_pairs = plan.group_size == 1 or plan.in_pairs(tokens)
    return tf.as_dtype("bool" if shift_or_pairs else small_integer(tokens))


def undo(grad, trace, plan):
    """Permute the gradient of one sample back: the inverse of `values`."""
    tokens, channels = grad.shape
    if plan.group_size == 1:
        return _take(grad, shift_places(plan.steps, tokens, back=True))
    place = tf.cast(trace, "int32") * channels + np.arange(channels, dtype="int32")
    empty, place = tf.zeros([tokens * channels], grad.dtype), tf.reshape(place, (-1, 1))
    row = tf.tensor_scatter_nd_update(empty, place, tf.reshape(grad, [-1]))
    return tf.reshape(row, grad.shape)


def order_pairs(shifted, x, plan):
    """Sort pairs of tokens that have been shifted; also return which were swapped.

    Like `swap_pairs`, for one sample or for a batch of them.
    """
    swap = _out_of_order(shifted)
    if plan.aligned:
        swap = swap ^ _out_of_order(x[..., :1])
    return swap_pairs(shifted, swap), swap


def swap_pairs(x, swap):
    """Change the places of the pairs that `swap` marks. As bits, since a ^ (a ^ b) is b."""
    bits = _pairs(x if x.dtype.is_integer else tf.bitcast(x, f"int{8 * x.dtype.size}"))
    change = xor(bits[..., 0, :], bits[..., 1, :])
    change = tf.where(swap, change, tf.zeros_like(change))
    bits = tf.reshape(xor(bits, change[..., None, :]), tf.shape(x))
    return tf.ensure_shape(tf.bitcast(bits, x.dtype), x.shape)


def _out_of_order(x):
    """Which pairs descend. Compared as integers, since XLA takes subnormal floats for zeros."""
    key = _to_key(x)
    pairs = _pairs(key + tf.cast(_is_minus_zero(key, x.dtype), key.dtype))
    return pairs[..., 1, :] < pairs[..., 0, :]


def _pairs(x):
    shape = tf.shape(x)
    return tf.reshape(x, tf.concat([shape[:-2], [x.shape[-2] // 2, 2, x.shape[-1]]], axis=0))


def _shift(x, plan):
    return x if plan.steps is None else _take(x, shift_places(plan.steps, x.shape[0]))


def _take(x, places):
    return tf.reshape(tf.gather(tf.reshape(x, [-1]), places), x.shape)


def _align(x, unsorted, plan):
    """Give the sorted tokens of every group the ranks of the group of channel 0."""
    if not plan.aligned:
        return x
    _, place = _sort_with_places(unsorted[:, :1], plan)
    place = (place + _group_starts(x.shape[0], plan))[:, 0]
    rank = tf.math.invert_permutation(place)
    return tf.gather(x, rank)


def _group_starts(tokens, plan):
    return (np.arange(tokens, dtype="int32") // plan.group_size * plan.group_size)[:, None]


def _sort_with_places(x, plan):
    """Sort stably; also return the place in its group that each value came from."""
    key, place = _to_key(x), np.arange(x.shape[0])[:, None] % plan.group_size
    narrow = key.dtype.size <= 2 and plan.group_size <= 1 << 15
    wide, bits = (tf.int32, 16) if narrow else (tf.int64, 32)
    # -0.0 is to equal 0.0; a bit below the place remembers its sign.
    minus = tf.cast(_is_minus_zero(key, x.dtype), wide)
    low = 2 * place.astype(wide.as_numpy_dtype) + minus
    packed = _sort((tf.cast(key, wide) + minus) * (1 << bits) + low, plan)
    low = tf.bitwise.bitwise_and(packed, tf.constant((1 << bits) - 1, wide))
    minus, place = low % 2, tf.cast(low // 2, "int32")
    key = tf.bitwise.right_shift(packed, tf.constant(bits, wide)) - minus
    return _from_key(tf.cast(key, _to_key(x).dtype), x.dtype), place


def _sort(key, plan):
    """Sort integers, (tokens, channels), in groups along the tokens."""
    tokens, channels = key.shape
    size, groups = plan.group_size, -(-tokens // plan.group_size)
    if plan.descending is not None:
        turn = tf.constant(-np.array(plan.descending, "int64"), key.dtype)
        key = xor(key, turn)
    runs = _fill_up(key, groups * size, 0)
    runs = _fill_up(tf.reshape(runs, (groups, size, channels)), power_of_two(size), 1)
    runs = _run_network(runs)[:, :size]
    key = tf.reshape(runs, (groups * size, channels))[:tokens]
    return key if plan.descending is None else xor(key, turn)


def _fill_up(x, length, axis):
    missing = [[0, 0] for _ in x.shape]
    missing[axis][1] = length - x.shape[axis]
    return tf.pad(x, missing, constant_values=x.dtype.max)


def _run_network(runs):
    for size, flip in network(runs.shape[1]):
        blocks = tf.reshape(runs, (runs.shape[0], -1, 2, size // 2, runs.shape[2]))
        first, second = blocks[:, :, 0], blocks[:, :, 1]
        second = second[:, :, ::-1] if flip else second
        low, high = tf.minimum(first, second), tf.maximum(first, second)
        high = high[:, :, ::-1] if flip else high
        runs = tf.reshape(tf.stack([low, high], axis=2), runs.shape)
    return runs


def _to_key(x):
    """Signed integers in the order of the values."""
    if x.dtype.is_floating:
        return _mirror_negatives(tf.bitcast(x, f"int{8 * x.dtype.size}"))
    return tf.cast(x, f"int{16 * x.dtype.size}") if x.dtype.is_unsigned else x


def _from_key(key, dtype):
    if dtype.is_floating:
        return tf.bitcast(_mirror_negatives(key), dtype)
    return tf.cast(key, dtype)


def _is_minus_zero(key, dtype):
    return (key == -1) & dtype.is_floating


def _mirror_negatives(bits):
    """Negative floats ascend as their integers descend; the mapping is its own inverse."""
    sign = tf.bitwise.right_shift(bits, tf.constant(8 * bits.dtype.size - 1, bits.dtype))
    return xor(bits, tf.bitwise.bitwise_and(sign, tf.constant(bits.dtype.max, bits.dtype)))
