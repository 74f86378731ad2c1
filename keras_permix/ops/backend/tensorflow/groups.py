"""Sort groups in TensorFlow, for each sample (tokens, channels).

Groups are sorted as integers in the order of the values, by a bitonic network along the tokens.
When a gradient is needed, the low bits of the integers hold the positions. This makes the sort
stable and returns the source of each value. The first `length` tokens of a sample are real, or all
tokens if it is None.
"""

from functools import partial

import numpy as np
import tensorflow as tf

from keras_permix.ops.backend.plan import power_of_two, small_integer
from keras_permix.ops.backend.tensorflow.keys import from_key, is_minus_zero, to_key, to_ranks, xor
from keras_permix.ops.reference import network


def arrangement(plan, on_cpu):
    """Return the four functions of an `Arrangement` for a batch."""
    each, sort = partial(_each, on_cpu=on_cpu), dict(plan=plan, by_blocks=on_cpu)

    def values(x, length):
        return each(partial(_values, **sort), x, length, x.dtype)

    def order(x, length):
        dtypes = (x.dtype, tf.as_dtype(small_integer(x.shape[1])))
        return each(partial(_order, **sort), x, length, dtypes)

    def take(x, residuals):
        return each(_take, x, residuals, x.dtype)

    def put(grad, residuals):
        return each(_put, grad, residuals, grad.dtype)

    return values, order, take, put


def _each(function, x, other, dtypes, *, on_cpu):
    """Apply a function to each sample; on a CPU in turn, so that samples stay in the cache."""
    tensors = (x,) if other is None else (x, other)
    if not on_cpu:
        return tf.vectorized_map(lambda sample: function(*sample), tensors)
    specs = tf.nest.map_structure(lambda dtype: tf.TensorSpec(x.shape[1:], dtype), dtypes)
    if x.shape[0] is None:
        tensors = tuple(map(_at_least_one, tensors))
    mapped = tf.map_fn(lambda sample: function(*sample), tensors, fn_output_signature=specs)
    return tf.nest.map_structure(lambda out: out[: tf.shape(x)[0]], mapped)


def _at_least_one(x):
    """Add a sample to an empty batch; otherwise XLA cannot infer the outputs of a map."""
    missing = tf.cast(tf.shape(x)[0] == 0, "int32")
    return tf.pad(x, [[0, missing], [0, 0], [0, 0]])


def _values(x, length=None, *, plan, by_blocks):
    """Sort in groups, or give every group the ranks of the group of channel 0."""
    key = _sort(to_key(x), length, plan, by_blocks)
    return _align(from_key(key, x.dtype), x, length, plan, by_blocks)


def _order(x, length=None, *, plan, by_blocks):
    """Sort like `_values`, and return the source token of each value."""
    out, token = _sort_with_tokens(x, length, plan, by_blocks)
    out = _align(out, x, length, plan, by_blocks)
    return out, tf.cast(_align(token, x, length, plan, by_blocks), small_integer(x.shape[0]))


def _take(x, residuals):
    """Permute by residuals."""
    return tf.reshape(tf.gather(tf.reshape(x, [-1]), _positions(residuals)), tf.shape(x))


def _put(grad, residuals):
    """Undo `_take`."""
    empty, flat = tf.zeros([tf.size(grad)], grad.dtype), tf.reshape(grad, [-1])
    return tf.reshape(
        tf.tensor_scatter_nd_update(empty, _positions(residuals)[:, None], flat), tf.shape(grad)
    )


def _positions(residuals):
    channels = residuals.shape[1]
    return tf.reshape(tf.cast(residuals, "int32") * channels + tf.range(channels), [-1])


def _align(x, unsorted, length, plan, by_blocks):
    """Give the sorted tokens of every group the ranks of the group of channel 0."""
    if not plan.aligned:
        return x
    _, token = _sort_with_tokens(unsorted[:, :1], length, plan, by_blocks)
    return tf.gather(x, tf.math.invert_permutation(token[:, 0]))


def _sort_with_tokens(x, length, plan, by_blocks):
    """Sort stably, and return the source token of each value."""
    if x.dtype.size == 8:
        return _sort_halves(x, length, plan, by_blocks)
    tokens, size = _sizes(x, plan)
    key, own = to_key(x), tf.range(tokens)[:, None]
    narrow = key.dtype.size <= 2 and (plan.group_size or 1 << 31) <= 1 << 15
    wide, bits = (tf.int32, 16) if narrow else (tf.int64, 32)
    # -0.0 must equal 0.0; a bit below the position stores its sign.
    minus = tf.cast(is_minus_zero(key, x.dtype), wide)
    low = 2 * tf.cast(own % size, wide) + minus
    packed = _sort((tf.cast(key, wide) + minus) * (1 << bits) + low, length, plan, by_blocks)
    low = tf.bitwise.bitwise_and(packed, tf.constant((1 << bits) - 1, wide))
    token = own - own % size + tf.cast(low // 2, "int32")
    if length is not None:
        token = tf.where(own < length, token, own)
    minus = low % 2
    key = tf.bitwise.right_shift(packed, tf.constant(bits, wide)) - minus
    return from_key(tf.cast(key, to_key(x).dtype), x.dtype), token


def _sort_halves(x, length, plan, by_blocks):
    """Sort 64-bit values, which leave no bits for positions, by the lower, then the upper half."""
    ranks = to_ranks(x)
    lower = tf.cast(tf.bitwise.bitwise_and(ranks, (1 << 32) - 1) + tf.int32.min, "int32")
    upper = tf.cast(tf.bitwise.right_shift(ranks, tf.constant(32, ranks.dtype)), "int32")
    _, token = _sort_with_tokens(lower, length, plan._replace(descending=None), by_blocks)
    _, position = _sort_with_tokens(_take(upper, token), length, plan, by_blocks)
    token = _take(token, position)
    return _take(x, token), token


def _sort(key, length, plan, by_blocks):
    """Sort integers in groups along the tokens."""
    tokens, size = _sizes(key, plan)
    groups, channels = -(-tokens // size), key.shape[1]
    flip = None
    if plan.descending is not None:
        flip = tf.constant(-np.array(plan.descending, "int64"), key.dtype)
        key = xor(key, flip)
    if length is not None:
        key = tf.where(tf.range(tokens)[:, None] < length, key, key.dtype.max)
    runs = tf.reshape(_fill_up(key, groups * size, 0), (groups, size, channels))
    if key.shape[0] is None:
        runs = _sort_any_number(runs)
    else:
        runs = network.sort(_fill_up(runs, power_of_two(size), 1), by_blocks)[:, :size]
    key = tf.reshape(runs, (groups * size, channels))[:tokens]
    return key if flip is None else xor(key, flip)


def _sizes(x, plan):
    """Return the numbers of tokens and of tokens per group, as tensors if they are unknown."""
    tokens = x.shape[0]
    if tokens is not None:
        return tokens, plan.group_size
    tokens = tf.shape(x)[0]
    size = tokens if plan.group_size is None else tf.minimum(tokens, plan.group_size)
    return tokens, tf.maximum(size, 1)


def _fill_up(x, length, axis):
    missing = [[0, 0] for _ in x.shape]
    missing[axis][1] = length - (x.shape[axis] or tf.shape(x)[axis])
    return tf.pad(x, missing, constant_values=x.dtype.max)


def _sort_any_number(runs):
    """Sort (groups, tokens, channels) along an unknown number of tokens, by the network in a loop.

    Smaller values always move to smaller positions, so that positions after the last token, up to a
    power of two, can be omitted.
    """
    tokens = tf.shape(runs)[1]
    position = tf.range(tokens)

    def compare(level, stride, runs):
        """Compare first with the mirrored position in a block of `level`, then `stride` apart."""
        partner = xor(position, tf.where(2 * stride == level, level - 1, stride))
        partner = tf.where(partner < tokens, partner, position)
        other = tf.gather(runs, partner, axis=1)
        low = (position < partner)[:, None]
        runs = tf.where(low, tf.minimum(runs, other), tf.maximum(runs, other))
        last = stride == 1
        level = tf.where(last, 2 * level, level)
        return level, tf.where(last, level // 2, stride // 2), runs

    def unsorted(level, stride, runs):
        return level < 2 * tokens

    return tf.while_loop(unsorted, compare, (2, 1, runs))[2]
