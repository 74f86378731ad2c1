"""What runs on JAX."""

from functools import partial

import jax
import jax.numpy as jnp
from jax import lax

from keras_permix.ops import _jax_sample as sample
from keras_permix.ops._rows import Row
from keras_permix.ops._tables import Plan, plan_csp, plan_slice_sort

SORTABLE = ("float16", "bfloat16", "float32", "int8", "int16", "int32", "uint8", "uint16")


def device(x):
    return jax.default_backend() if isinstance(x, jax.core.Tracer) else x.device.platform


def compiling():
    return False


def channel_shift(x, mask, *, steps):
    return permute(x, Plan(steps, group_size=1))


def csp(x, mask, *, steps, group_size, align, ragged):
    return permute(x, plan_csp(x.shape[1], steps, group_size, align))


def group_sort(x, mask, *, group_size, align, ragged):
    return permute(x, plan_csp(x.shape[1], None, group_size, align))


def slice_sort(x, mask, *, descending):
    return permute(x, plan_slice_sort(x.shape[1], descending))


@partial(jax.jit, static_argnames="plan")
def permute(x, plan):
    return _permute(x, plan)


@partial(jax.custom_vjp, nondiff_argnums=(1,))
def _permute(x, plan):
    if plan.in_pairs(x.shape[1]):
        shifted = _each_sample(sample.values, plan.only_shift(), x)
        return jax.vmap(partial(sample.order_pairs, plan=plan))(shifted, x)[0]
    return _each_sample(sample.values, plan, x)


def _forward(x, plan):
    return _each_sample(sample.values_and_trace, plan, x)


def _backward(plan, trace, grad):
    if plan.in_pairs(grad.shape[1]):
        grad, trace = jax.vmap(sample.swap_pairs)(grad, trace), None
        plan = plan.only_shift()
    return (grad if plan.is_identity() else _each_sample(sample.undo, plan, grad, trace),)


_permute.defvjp(_forward, _backward)


def _each_sample(function, plan, *arrays):
    """On a CPU take one sample after the other, so that it stays in the cache.

    The edge of the loop is also one that XLA does not fuse across: it would repeat a gather for
    each of its uses. Without a gather, as where pairs are swapped unshifted, there is no need.
    """
    function = partial(function, plan=plan)
    if plan.steps is None and plan.group_size <= 2 or jax.default_backend() != "cpu":
        return jax.vmap(function)(*arrays)
    return lax.map(lambda sample: function(*sample), arrays)


@jax.jit
def max_exchange(x, mask):
    return _max_exchange(x)


@jax.custom_vjp
def _max_exchange(x):
    return _max_exchange_forward(x)[0]


def _max_exchange_forward(x):
    winner = jnp.argmax(x, axis=1, keepdims=True).astype("int32")
    return _exchange(x, winner), winner


def _exchange(x, winner):
    place = jnp.arange(x.shape[1], dtype="int32")[None, :, None]
    top = jnp.take_along_axis(x, winner, axis=1, mode="promise_in_bounds")
    return jnp.where(place == 0, top, jnp.where(place == winner, x[:, :1], x))


_max_exchange.defvjp(_max_exchange_forward, lambda winner, grad: (_exchange(grad, winner),))


SORTS = dict(dtypes=SORTABLE, aligns=("independent", "reference"), ragged=True)

ROWS = (
    Row("channel_shift", "native", channel_shift),
    Row("csp", "native", csp, **SORTS),
    Row("group_sort", "native", group_sort, **SORTS),
    Row("slice_sort", "native", slice_sort, dtypes=SORTABLE),
    Row("max_exchange", "native", max_exchange),
)
