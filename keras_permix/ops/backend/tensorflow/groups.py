"""Group sorts of one sample, (tokens, channels), in TensorFlow.

Groups go through a bitonic network along the tokens, channels innermost, as integers in the order
of the values. When a gradient is wanted, the integers carry the places below the values, which
makes the sort stable and tells where everything came from.
"""

import numpy as np
import tensorflow as tf

from keras_permix.ops.backend.plan import power_of_two, shift_places, small_integer
from keras_permix.ops.backend.tensorflow.keys import from_key, is_minus_zero, to_key, xor
from keras_permix.ops.reference import network


def each(function, *tensors, dtypes):
    """Apply to each entry of the first axis; on a CPU in turn, so that it stays in the cache."""
    if not on_cpu():
        return tf.vectorized_map(lambda entries: function(*entries), tensors)
    return tf.map_fn(lambda entries: function(*entries), tensors, fn_output_signature=dtypes)


def on_cpu():
    return not tf.config.list_logical_devices("GPU")


def values(x, plan):
    """Permute one sample."""
    key = _sort(to_key(_shift(x, plan)), plan)
    return _align(from_key(key, x.dtype), x, plan)


def values_and_trace(x, plan):
    """Permute one sample, and return what `undo` must know of the data, as small as it can be."""
    tokens = x.shape[0]
    out, place = _sort_with_places(_shift(x, plan), plan)
    place += _group_starts(tokens, plan)
    out, place = _align(out, x, plan), _align(place, x, plan)
    if plan.steps is not None:
        place = (place - np.array(plan.steps, "int32")) % tokens
    return out, tf.cast(place, small_integer(tokens))


def undo(grad, trace, plan):
    """Permute the gradient of one sample back: the inverse of `values`."""
    tokens, channels = grad.shape
    place = tf.cast(trace, "int32") * channels + np.arange(channels, dtype="int32")
    empty, place = tf.zeros([tokens * channels], grad.dtype), tf.reshape(place, (-1, 1))
    row = tf.tensor_scatter_nd_update(empty, place, tf.reshape(grad, [-1]))
    return tf.reshape(row, grad.shape)


def _shift(x, plan):
    if plan.steps is None:
        return x
    return tf.reshape(tf.gather(tf.reshape(x, [-1]), shift_places(plan.steps, x.shape[0])), x.shape)


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
    key, place = to_key(x), np.arange(x.shape[0])[:, None] % plan.group_size
    narrow = key.dtype.size <= 2 and plan.group_size <= 1 << 15
    wide, bits = (tf.int32, 16) if narrow else (tf.int64, 32)
    # -0.0 is to equal 0.0; a bit below the place remembers its sign.
    minus = tf.cast(is_minus_zero(key, x.dtype), wide)
    low = 2 * place.astype(wide.as_numpy_dtype) + minus
    packed = _sort((tf.cast(key, wide) + minus) * (1 << bits) + low, plan)
    low = tf.bitwise.bitwise_and(packed, tf.constant((1 << bits) - 1, wide))
    minus, place = low % 2, tf.cast(low // 2, "int32")
    key = tf.bitwise.right_shift(packed, tf.constant(bits, wide)) - minus
    return from_key(tf.cast(key, to_key(x).dtype), x.dtype), place


def _sort(key, plan):
    """Sort integers, (tokens, channels), in groups along the tokens."""
    tokens, channels = key.shape
    size, groups = plan.group_size, -(-tokens // plan.group_size)
    if plan.descending is not None:
        turn = tf.constant(-np.array(plan.descending, "int64"), key.dtype)
        key = xor(key, turn)
    runs = _fill_up(key, groups * size, 0)
    runs = _fill_up(tf.reshape(runs, (groups, size, channels)), power_of_two(size), 1)
    runs = network.sort(runs, on_cpu())[:, :size]
    key = tf.reshape(runs, (groups * size, channels))[:tokens]
    return key if plan.descending is None else xor(key, turn)


def _fill_up(x, length, axis):
    missing = [[0, 0] for _ in x.shape]
    missing[axis][1] = length - x.shape[axis]
    return tf.pad(x, missing, constant_values=x.dtype.max)
