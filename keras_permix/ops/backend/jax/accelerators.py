"""What runs on JAX on GPUs and TPUs: kernels in Pallas, and XLA for what a TPU's do not take.

All ways are the same six functions of integers, of which floats are the bits. A TPU gathers slowly,
so there shifts are rolls, and what was sorted returns to its places by being sorted by them.
"""

from functools import partial
from importlib import import_module

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax


@partial(jax.jit, static_argnames=("plan", "way"))
def permute(x, mask, plan, way):
    """Permute; `way` is a name in `_functions`."""
    return _permute(x, plan.at(x.shape[1]), way)


@partial(jax.custom_vjp, nondiff_argnums=(1, 2))
def _permute(x, plan, way):
    if _in_pairs(x, plan) or plan.aligned:
        return _forward(x, plan, way)[0]
    bits, way = _to_bits(x), _functions(way)
    if plan.steps:
        bits = way.shift(bits, plan.steps)
    if plan.group_size > 1:
        bits = _join(way.sort(_cut(bits, plan), _is_floating(x)), x)
        bits = _turn(bits, plan)
    return _from_bits(bits, x)


def _forward(x, plan, way):
    bits, trace, way = _to_bits(x), None, _functions(way)
    if _in_pairs(x, plan):
        bits, trace = way.sort_pairs(bits, plan.steps, _is_floating(x))
        return _from_bits(bits, x), trace
    if plan.steps:
        bits = way.shift(bits, plan.steps)
    if plan.group_size > 1:
        groups = way.sort_with_places(_cut(bits, plan), _is_floating(x))
        groups = _align(*groups) if plan.aligned else groups
        bits, trace = (_turn(_join(array, x), plan) for array in groups)
    return _from_bits(bits, x), trace


def _backward(plan, way, trace, grad):
    bits, way = _to_bits(grad), _functions(way)
    back = plan.steps and tuple(-step % grad.shape[1] for step in plan.steps)
    if _in_pairs(grad, plan):
        return (_from_bits(way.unsort_pairs(bits, trace, back), grad),)
    if plan.group_size > 1:
        # Places beyond all others for what fills the last group up.
        places = _cut(trace, plan, fill=jnp.iinfo(trace.dtype).max)
        bits = _join(way.unsort(_cut(bits, plan), places), grad)
    if plan.steps:
        bits = way.shift(bits, back)
    return (_from_bits(bits, grad),)


_permute.defvjp(_forward, _backward)


def _functions(way):
    """Pallas takes long to import, so only who calls it pays."""
    if way == "tpu_xla":
        return import_module("keras_permix.ops.backend.jax.tpu_xla")
    device, *interpreted = way.split()  # "gpu_pallas", "tpu_pallas", or one of them "interpreted"
    platform = device.removesuffix("_pallas")
    functions = import_module(f"keras_permix.ops.backend.jax.{platform}.functions")
    return functions.Kernels(interpret=bool(interpreted))


def _in_pairs(x, plan):
    return plan.in_pairs(x.shape[1]) and not plan.aligned


def _is_floating(x):
    return jnp.issubdtype(x.dtype, jnp.floating)


def _to_bits(x):
    """Signed integers; an unsigned type becomes one that holds all its values."""
    if _is_floating(x):
        return lax.bitcast_convert_type(x, f"int{8 * x.dtype.itemsize}")
    return x if x.dtype == "int16" or x.dtype.itemsize > 2 else x.astype("int32")


def _from_bits(bits, x):
    if _is_floating(x):
        return lax.bitcast_convert_type(bits, x.dtype)
    return bits.astype(x.dtype)


def _cut(bits, plan, fill=None):
    """Groups, (batch, groups, tokens, channels), the last one filled up with what sorts last."""
    batch, tokens, channels = bits.shape
    fill = jnp.iinfo(bits.dtype).max if fill is None else fill
    missing = -tokens % plan.group_size
    bits = lax.pad(bits, jnp.array(fill, bits.dtype), [(0, 0, 0), (0, missing, 0), (0, 0, 0)])
    return bits.reshape(batch, -1, plan.group_size, channels)


def _join(groups, x):
    return groups.reshape(len(x), -1, x.shape[2])[:, : x.shape[1]]


def _turn(bits, plan):
    """Let the channels descend that are to. They are one group."""
    if plan.descending is None:
        return bits
    return jnp.where(np.array(plan.descending), bits[:, ::-1], bits)


def _align(groups, places):
    """Give the tokens of every group the ranks of the group of channel 0. It gathers whole rows."""
    rank = jnp.argsort(places[..., :1].astype("int32"), axis=2)
    return (jnp.take_along_axis(array, rank, axis=2) for array in (groups, places))
