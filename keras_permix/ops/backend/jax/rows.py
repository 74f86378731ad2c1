"""What runs on JAX."""

from functools import partial

import jax
import jax.numpy as jnp
from jax import lax

from keras_permix.ops.backend.jax import accelerators, groups, pairs
from keras_permix.ops.backend.plan import Plan, plan_csp, plan_slice_sort
from keras_permix.ops.dispatch.rows import Row
from keras_permix.ops.reference import ema
from keras_permix.ops.reference import sinkhorn as sinkhorns

SORTABLE = ("float16", "bfloat16", "float32", "int8", "int16", "int32", "uint8", "uint16")
CACHED = 1 << 18  # samples that may stay in the cache with all that is made of them


def device(x):
    """The platform; "several gpu" where XLA may have to divide the call between devices."""
    if isinstance(x, jax.core.Tracer):
        platform, count = jax.default_backend(), jax.device_count()
    else:
        devices = x.devices()
        platform, count = next(iter(devices)).platform, len(devices)
    return f"several {platform}" if platform != "cpu" and count > 1 else platform


def exporting():
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
    if plan.in_pairs(x.shape[1]) or plan.group_size == 1:
        return _forward(x, plan)[0]
    return groups.each(partial(groups.values, plan=plan), x)


def _forward(x, plan):
    """Permute, and return what `_backward` must know of the data."""
    if plan.group_size == 1:
        return _shift(x, plan.steps), None
    if plan.in_pairs(x.shape[1]):
        return pairs.order(_shift(x, plan.steps), x[..., :1] if plan.aligned else None)
    return groups.each(partial(groups.values_and_trace, plan=plan), x)


def _backward(plan, trace, grad):
    if plan.group_size == 1:
        return (_shift(grad, plan.steps, back=True),)
    if plan.in_pairs(grad.shape[1]):
        return (_shift(pairs.swap(grad, trace), plan.steps, back=True),)
    return (groups.each(partial(groups.undo, plan=plan), grad, trace),)


_permute.defvjp(_forward, _backward)


def _shift(x, steps, back=False):
    """Shift where XLA for CPUs does not fuse the gather with what comes before or after.

    It would gather again for each of the uses. A conditional is an edge that it keeps;
    `lax.optimization_barrier` is not. Both branches are the same.
    """
    if steps is None:
        return x
    shift = partial(pairs.shift, steps=steps, back=back)
    if jax.default_backend() != "cpu":
        return shift(x)
    first_is_positive = (x[:1, :1, :1] > 0).any()
    return lax.cond(first_is_positive, shift, shift, x)


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


@ema.as_implementation
def damped_ema(x, weight, log_decay, omega, truncation):
    """On a CPU take some channels after the others, so that they stay in the cache."""
    batch, tokens, channels = x.shape
    most = max(CACHED // (batch * tokens), 1)
    if most >= channels or jax.default_backend() != "cpu":
        return ema.by_chunks(x, weight, log_decay, omega, truncation)
    size = next(size for size in range(most, 0, -1) if channels % size == 0)

    def cut(parameter):
        groups = parameter.reshape(-1, channels // size, size, parameter.shape[1])
        return groups.swapaxes(0, 1).reshape(channels // size, -1, parameter.shape[1])

    groups = jnp.moveaxis(x.reshape(batch, tokens, -1, size), 2, 0)
    averaged = lax.map(
        lambda group: ema.by_chunks(*group, truncation),
        (groups, cut(weight), cut(log_decay), omega.reshape(-1, size)),
    )
    return jnp.moveaxis(averaged, 0, 2).reshape(x.shape)


@sinkhorns.as_implementation
def sinkhorn(function, value, times):
    return lax.fori_loop(0, times, lambda _, value: function(value), value)


SORTS = dict(dtypes=SORTABLE, aligns=("independent", "reference"), ragged=True)
LARGEST = 4096  # what kernels hold: a group on a GPU, all tokens on a TPU


def on_accelerators(op, **facts):
    """Rows of Pallas's kernels, which XLA cannot divide between devices, and of XLA for TPUs."""
    tables = {
        "gpu_pallas": dict(devices=("gpu",), max_group=None if op == "channel_shift" else LARGEST),
        "tpu_pallas": dict(devices=("tpu",), max_tokens=LARGEST),
        "tpu_xla": dict(devices=("tpu", "several tpu")),
    }
    for way, table in tables.items():
        yield Row(op, way, partial(getattr(accelerators, op), way=way), **facts, **table)


ROWS = (
    *on_accelerators("channel_shift", dtypes=SORTABLE),
    Row("channel_shift", "native", channel_shift),
    *on_accelerators("csp", **SORTS),
    Row("csp", "native", csp, **SORTS),
    Row("damped_ema", "chunked", damped_ema, masks=True, dynamic=True),
    Row("damped_ema", "fft", ema.fft, masks=True, dynamic=True),
    *on_accelerators("group_sort", **SORTS),
    Row("group_sort", "native", group_sort, **SORTS),
    Row("sinkhorn", "loop", sinkhorn, dynamic=True),
    *on_accelerators("slice_sort", dtypes=SORTABLE),
    Row("slice_sort", "native", slice_sort, dtypes=SORTABLE),
    Row("max_exchange", "native", max_exchange),
)
