"""Devices, tracing, products on single CPUs, timers and variables of a model in JAX.

`keras.distribution` divides a batch between devices. XLA cannot divide a kernel, so `divided` calls
it on every device for that device's part of the batch.
"""

import contextlib
import re
from functools import lru_cache, partial
from time import perf_counter
from typing import NamedTuple

import jax
import keras
from jax import lax
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from keras import ops

from keras_permix.ops.backend.plan import Hardware
from keras_permix.ops.reference import linear as reference


def has_data(x):
    """Whether this process holds the numbers in `x` now, on whatever devices."""
    return not isinstance(x, jax.core.Tracer) and x.is_fully_addressable


def alone_on_cpu():
    """Whether XLA compiles for one CPU, with nothing to divide."""
    return [device.platform for device in devices_of_program()] == ["cpu"]


def each(function, *arrays):
    """Apply to each sample; on one CPU one by one, so that it stays in the cache."""
    if not alone_on_cpu():
        return jax.vmap(function)(*arrays)
    return lax.map(lambda entries: function(*entries), arrays)


def apart(function, x):
    """Call a function of the whole batch, and fuse nothing with it.

    XLA for CPUs fuses a gather with what comes after, and gathers again for each of the uses. A
    conditional is an edge that it keeps; `lax.optimization_barrier` is not. Both branches are the
    same. The condition depends on one sample, for which several devices would have to wait.
    """
    if not alone_on_cpu():
        return function(x)
    first_is_positive = (x[(slice(1),) * x.ndim] > 0).any()
    return lax.cond(first_is_positive, function, function, x)


def make_runners(function, x, weights):
    """A forward call, and one with gradients for `x` and for the weights."""

    def call(x, weights):
        if not isinstance(function, keras.Layer):
            return function(x)
        fixed = [variable.value for variable in function.non_trainable_variables]
        return function.stateless_call(weights, fixed, x)[0]

    def both(x, weights, cotangent):
        result, pull = jax.vjp(call, x, weights)
        for_x, for_weights = pull(cotangent)
        return [result, for_x, *for_weights]

    forward, both = jax.jit(lambda *arguments: [call(*arguments)]), jax.jit(both)
    cotangent = jax.numpy.ones_like(call(x, weights))
    return lambda: forward(x, weights), lambda: both(x, weights, cotangent)


def chip(number=0):
    """Return the name of an accelerator, or "" without one."""
    device = jax.devices()[number]
    return "" if device.platform == "cpu" else device.device_kind


def seconds(call):
    """Return the seconds that a call takes until its results are ready."""
    start = perf_counter()
    jax.block_until_ready(call())
    return perf_counter() - start


def peak_bytes(call, number):
    """`None`: JAX tells the peak since the process began, and not that of a call."""


def full_precision():
    """Products of float32 are exact to float32 within: no TF32, and no bfloat16 on a TPU."""
    return jax.default_matmul_precision("highest")


@contextlib.contextmanager
def weights_kept(model):
    """Give a model back what Keras has taken out of it for a step that does not end.

    `fit`, `evaluate` and `predict` empty its variables before the first step and fill them after
    the last. An error between, such as one for inputs of another shape or Ctrl-C, leaves them so.
    And `fit` leaves a moving average and the weight that it became one array, which the next step
    would delete twice.
    """
    optimizer = getattr(model, "optimizer", None)
    variables = [
        *model.variables,
        *model.metrics_variables,
        *(optimizer.variables if optimizer else ()),
    ]
    before = [(variable, variable._value) for variable in variables]
    try:
        yield
    except BaseException:
        model.jax_state_sync()  # of the last whole step, where there was one
        for variable, value in before:
            if variable._value is None and value is not None and not value.is_deleted():
                variable.assign(value)
        raise
    # A loss that is scaled has an optimizer within the optimizer.
    if optimizer and getattr(optimizer, "inner_optimizer", optimizer).use_ema:
        for variable in model.trainable_variables:
            variable.assign(ops.copy(variable.value))


def exporting():
    return False


def shape(x):
    """Return the sizes of `x`, with None for a size that `jax.export` leaves open."""
    return tuple(size if isinstance(size, int) else None for size in x.shape)


class Division(NamedTuple):
    """Devices, and the axis of their mesh along which a batch is divided."""

    mesh: Mesh
    axis: str


def hardware(x):
    """Describe the devices of `x`; of a tracer, the devices of the program."""
    devices, sure = _devices(x), not isinstance(x, jax.core.Tracer)
    chip = devices[0]
    if chip.platform == "cpu":
        return Hardware("cpu", len(devices), sure)
    return Hardware(chip.platform, len(devices), sure, chip, why_undivided(x))


def find_division(x):
    """Return how the batch of `x` is divided among devices, or None for one device."""
    return None if len(_devices(x)) == 1 else _division()


def why_undivided(x):
    """Why a kernel cannot be called on each device for its part of `x`, or None if it can."""
    devices, division = _devices(x), _division()
    if len(devices) == 1:
        return None
    if division is None:
        return "it needs a single device, or a `keras.distribution` that divides the batch"
    if set(devices) != set(division.mesh.devices.flat):
        return "it needs a tensor on the devices of `keras.distribution`"
    parts, batch = division.mesh.shape[division.axis], x.shape[0]
    if not isinstance(batch, int) or batch % parts:
        return f"it needs a batch that {parts} parts divide, as `keras.distribution` asks for"
    if any(_sharding(x)[1:]):
        return "it needs tokens and channels that are not divided between devices"
    return None


def divided(function, division):
    """`function` of arrays whose first axis is the batch, called for every part of it."""
    if division is None:
        return function
    specs = PartitionSpec(division.axis)
    # A kernel does not say along which axes of the mesh its results differ, so it is not checked.
    return partial(jax.shard_map, mesh=division.mesh, in_specs=specs, out_specs=specs)(
        function, check_vma=False
    )


def devices_of_program():
    """Return the devices that a traced function is for, as far as they are known.

    The devices of `keras.distribution`, and if none is set those that are here; within a
    `shard_map` one of them.
    """
    distribution = keras.distribution.distribution()
    if distribution is not None:
        devices = list(distribution.device_mesh.backend_mesh.devices.flat)
    else:
        default = jax.config.jax_default_device  # None, a device, or the name of a platform
        devices = jax.devices(getattr(default, "platform", default))
    inside = jax.sharding.get_abstract_mesh()
    within_shard_map = inside.shape and set(inside.manual_axes) == set(inside.axis_names)
    return devices[:1] if within_shard_map else devices


def _devices(x):
    return devices_of_program() if isinstance(x, jax.core.Tracer) else list(x.devices())


def _division():
    distribution = keras.distribution.distribution()
    if distribution is None or distribution.batch_dim_name is None:
        return None
    return Division(distribution.device_mesh.backend_mesh, distribution.batch_dim_name)


def _sharding(x):
    """Return the axes of the mesh that divide the axes of `x`, as far as they are known."""
    traced = isinstance(x, jax.core.Tracer)
    sharding = jax.typeof(x).sharding if traced else x.sharding
    return tuple(sharding.spec) if isinstance(sharding, NamedSharding) else ()


def dense(x, kernel, bias, mask):
    """Compute `x @ kernel + bias` as one matrix product on a CPU; `bias` may be None.

    XLA for CPUs copies and transposes the cotangent of a product with more than two axes, and
    recomputes the whole residual sum within that copy.
    """
    product = reference.dense(x.reshape(-1, x.shape[-1]), kernel, bias, mask)
    return product.reshape(*x.shape[:-1], product.shape[-1])


def limit_of_dense(call):
    """Why a call does not run on a single CPU, or None if it does."""
    devices = call.hardware.devices
    return None if devices == 1 else f"it needs tokens of one device, and here are {devices}"


CAPABILITY = (8, 0)  # the least for which NVIDIA's compiler takes the kernels
JAX = (0, 11)  # the oldest that `jax_triton` lowers for
FREE = "it needs a known number of samples"
ROOMY = ("TPU v5 lite", "TPU v6 lite")  # have 128 MiB of VMEM, as tests compile
TOKENS = 4096  # of a sample on other chips, in 16 to 32 MiB
LARGEST = 16384  # tokens of a sample, or of a part of it, that a kernel holds on a TPU
LEAST = 1024  # tokens of such a part
OLD = ("TPU v2", "TPU v3", "TPU v4", "TPU v4 lite")  # without an instruction that sorts need


def limit_of_gpu(call):
    """Why the kernels cannot serve a call on its GPU, or None if they can."""
    if call.shape[0] is None:
        return FREE
    if jax.__version_info__ < JAX:
        return f"it needs JAX 0.11, and this is {jax.__version__}"
    found = re.fullmatch(r"(\d+)\.(\d+)", getattr(call.hardware.chip, "compute_capability", ""))
    if found and tuple(map(int, found.groups())) >= CAPABILITY:
        return call.hardware.undivided
    return f"it needs an NVIDIA GPU of compute capability 8.0, and this is {_name(call)}"


def limit_of_tpu(call):
    """Why the kernels cannot serve a call on its TPU, or None if they can."""
    if call.shape[0] is None:
        return FREE
    plan, tokens = call.plan, call.shape[1]
    sorts = plan.group_size != 1 and (plan.aligned or not (tokens and plan.in_pairs(tokens)))
    if call.hardware.chip.device_kind in OLD and sorts:
        return f"it gathers along sublanes to sort, which takes a TPU v5, and this is {_name(call)}"
    most = TOKENS // 2 if call.masked else TOKENS
    if call.hardware.chip.device_kind not in ROOMY and tokens and tokens > most:
        return f"it takes at most {most} tokens on {_name(call)}"
    if tokens and tokens > TOKENS and call.masked:  # the compiler would take minutes
        return f"it takes masks of at most {TOKENS} tokens"
    if tokens and part_of(tokens) < min(tokens, LEAST):
        return f"it needs tokens that parts of {LEAST} to {LARGEST} tokens divide"
    return call.hardware.undivided


@lru_cache(maxsize=256)
def part_of(tokens):
    """Return the tokens of the largest parts that kernels hold, even where `tokens` is even."""
    step = 2 - tokens % 2
    return max(size for size in range(step, LARGEST + 1, step) if tokens % size == 0)


def _name(call):
    chip = call.hardware.chip
    capability = getattr(chip, "compute_capability", None)
    return f"a {chip.device_kind}" + (f" ({capability})" if capability else "")
