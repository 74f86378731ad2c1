"""What runs on TensorFlow.

Everything is compiled by XLA, also in a call that is not: op by op, a sorting network would be
slower than the sort it replaces.
"""

from functools import lru_cache, partial

import tensorflow as tf
from tensorflow.python.eager.record import could_possibly_record

from keras_permix.ops.backend.plan import Plan, plan_csp, plan_slice_sort, small_integer
from keras_permix.ops.backend.tensorflow import groups, pairs
from keras_permix.ops.backend.tensorflow.require import require
from keras_permix.ops.dispatch.rows import Row
from keras_permix.ops.reference import ema
from keras_permix.ops.reference import sinkhorn as sinkhorns

SORTABLE = ("float16", "bfloat16", "float32", "int8", "int16", "int32", "uint8", "uint16")


def device(x):
    placed = getattr(x, "device", "") or ""
    return placed.rpartition("device:")[2].partition(":")[0].lower() or "cpu"


def exporting():
    return False


def channel_shift(x, mask, *, steps):
    return _permutation(Plan(steps, group_size=1))(x)


def csp(x, mask, *, steps, group_size, align, ragged):
    return _permutation(plan_csp(x.shape[1], steps, group_size, align))(x)


def group_sort(x, mask, *, group_size, align, ragged):
    return _permutation(plan_csp(x.shape[1], None, group_size, align))(x)


def slice_sort(x, mask, *, descending):
    return _permutation(plan_slice_sort(x.shape[1], descending))(x)


@lru_cache(maxsize=256)
def _permutation(plan):
    """The function of a batch that `plan` describes, with its gradient."""

    def values(x):
        if plan.in_pairs(x.shape[1]) or plan.group_size == 1:
            return values_and_trace(x)[0]
        return groups.each(partial(groups.values, plan=plan), x, dtypes=x.dtype)

    def values_and_trace(x):
        if plan.group_size == 1:
            return _shift(x, plan.steps), tf.zeros(())
        if plan.in_pairs(x.shape[1]):
            return pairs.order(_shift(x, plan.steps), x[..., :1] if plan.aligned else None)
        dtypes = (x.dtype, tf.as_dtype(small_integer(x.shape[1])))
        return groups.each(partial(groups.values_and_trace, plan=plan), x, dtypes=dtypes)

    def undo(grad, trace):
        if plan.group_size == 1:
            return _shift(grad, plan.steps, back=True)
        if plan.in_pairs(grad.shape[1]):
            return _shift(pairs.swap(grad, trace), plan.steps, back=True)
        return groups.each(partial(groups.undo, plan=plan), grad, trace, dtypes=grad.dtype)

    values, values_and_trace, undo = map(_compiled, (values, values_and_trace, undo))

    @tf.custom_gradient
    def permute(x):
        x = tf.stop_gradient(x)  # else the tape records the loops inside, too
        if could_possibly_record():
            out, trace = values_and_trace(x)
            return out, lambda grad: undo(grad, trace)
        # A function that was traced without a tape may still be asked for its gradient.
        return values(x), lambda grad: undo(grad, values_and_trace(x)[1])

    return permute


_compiled = tf.function(jit_compile=True, autograph=False, reduce_retracing=False)


def _shift(x, steps, back=False):
    """Shift where XLA for CPUs does not fuse the gather with what comes before or after.

    It would gather again for each of the uses. A conditional is an edge that it keeps. Both
    branches are the same.
    """
    if steps is None:
        return x

    def shift():
        return pairs.shift(x, steps, back)

    if tf.config.list_logical_devices("GPU"):
        return shift()
    first_is_positive = tf.reduce_any(x[:1, :1, :1] > 0)
    return tf.cond(first_is_positive, shift, shift)


def max_exchange(x, mask):
    return _max_exchange(x)


@tf.custom_gradient
def _max_exchange(x):
    winner = tf.argmax(x, axis=1, output_type="int32")[:, None]
    return _exchange(x, winner), lambda grad: _exchange(grad, winner)


@_compiled
def _exchange(x, winner):
    place = tf.range(tf.shape(x)[1])[None, :, None]
    first, won = place == 0, place == winner
    top = tf.reduce_sum(tf.where(won, x, tf.zeros_like(x)), axis=1, keepdims=True)
    return tf.where(first, top, tf.where(won, x[:, :1], x))


@sinkhorns.as_implementation
def sinkhorn(function, value, times):
    """A loop whose number of turns XLA knows, which it must for a gradient."""
    shape = value.shape

    def turn(value):
        return (tf.ensure_shape(function(value), shape),)

    return tf.while_loop(lambda _: True, turn, (value,), maximum_iterations=times)[0]


SORTS = dict(dtypes=SORTABLE, aligns=("independent", "reference"), ragged=True)

ROWS = (
    Row("channel_shift", "native", channel_shift),
    Row("csp", "native", csp, **SORTS),
    Row("damped_ema", "chunked", ema.chunked, masks=True, dynamic=True),
    Row("damped_ema", "fft", ema.fft, masks=True, dynamic=True),
    Row("group_sort", "native", group_sort, **SORTS),
    Row("require", "native", require, dynamic=True),
    Row("sinkhorn", "loop", sinkhorn, dynamic=True),
    Row("slice_sort", "native", slice_sort, dtypes=SORTABLE),
    Row("max_exchange", "native", max_exchange),
)
