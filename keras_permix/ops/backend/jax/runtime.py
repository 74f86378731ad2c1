"""Handle devices, tracing, products on a single CPU, timers and variables of models in JAX.

`keras.distribution` divides a batch among devices. XLA cannot divide a kernel, so `divided` calls
it on every device for its part of the batch.
"""

import contextlib
import re
from functools import lru_cache
from time import perf_counter

import jax
import keras
from jax import lax
from jax.sharding import NamedSharding, PartitionSpec
from keras import ops

from keras_permix.ops.backend.plan import Hardware
from keras_permix.ops.reference import linear as reference


def has_data(x):
    """Return whether this process can read the values of `x`."""
    return not isinstance(x, jax.core.Tracer) and x.is_fully_addressable


def alone_on_cpu():
    """Return whether XLA compiles for a single CPU."""
    return [device.platform for device in devices_of_program()] == ["cpu"]


def each(function, *arrays):
    """Apply a function to each sample; on a single CPU in turn, so that one stays in the cache."""
    if not alone_on_cpu() or any(any(_sharding(array)) for array in jax.tree.leaves(arrays)):
        return jax.vmap(function)(*arrays)
    return lax.map(lambda entries: function(*entries), arrays)


def apart(function, x):
    """Call a function of the whole batch, and prevent XLA from fusing it with others.

    XLA for CPUs fuses a gather with later operations, and gathers again for each use. A conditional
    with equal branches prevents this; `lax.optimization_barrier` does not. The condition depends on
    one sample, for which several devices would have to wait.
    """
    if not alone_on_cpu():
        return function(x)
    first_is_positive = (x[(slice(1),) * x.ndim] > 0).any()
    return lax.cond(first_is_positive, function, function, x)


def make_runners(function, x, weights):
    """Return a forward call, and a call with gradients for `x` and the weights."""

    def call(x, weights):
        if not isinstance(function, keras.Layer):
            return function(x)
        fixed = [variable.value for variable in function.non_trainable_variables]
        return function.stateless_call(weights, fixed, x)[0]

    def both(x, weights):
        result, pull = jax.vjp(call, x, weights)
        for_x, for_weights = pull(result)
        return [result, for_x, *for_weights]

    forward, both = jax.jit(lambda *arguments: [call(*arguments)]), jax.jit(both)
    return lambda: forward(x, weights), lambda: both(x, weights)


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
    """Return `None`, because JAX reports only the peak since the process started."""


def full_precision():
    """Compute products of float32 in float32 within the context: no TF32 or bfloat16."""
    return jax.default_matmul_precision("highest")


@contextlib.contextmanager
def weights_kept(model):
    """Restore the variables of a model if a step of Keras fails.

    `fit`, `evaluate` and `predict` empty the variables before the first step and fill them after
    the last. An error or Ctrl-C in between leaves them empty. Besides, after `fit` a moving average
    and its weight share one array, which the next step would delete twice.
    """
    optimizer = getattr(model, "optimizer", None)
    variables = [*model.variables, *model.metrics_variables]
    variables += optimizer.variables if optimizer else []
    before = [(variable, variable._value) for variable in variables]
    try:
        yield
    except BaseException:
        model.jax_state_sync()  # from the last complete step, if any
        for variable, value in before:
            if variable._value is None and value is not None and not value.is_deleted():
                variable.assign(value)
        raise
    # A `LossScaleOptimizer` contains the optimizer.
    if optimizer and getattr(optimizer, "inner_optimizer", optimizer).use_ema:
        for variable in model.trainable_variables:
            variable.assign(ops.copy(variable.value))


def exporting():
    return False


def shape(x):
    """Return the sizes of `x`, with None for a size that `jax.export` leaves open."""
    return tuple(size if isinstance(size, int) else None for size in x.shape)


def hardware(x):
    """Describe the devices of `x`; of a tracer, the devices of the program."""
    devices, sure = _devices(x), not isinstance(x, jax.core.Tracer)
    chip = devices[0]
    if chip.platform == "cpu":
        return Hardware("cpu", len(devices), sure)
    return Hardware(chip.platform, len(devices), sure, chip, why_undivided(x))


def find_division(x):
    """Return the mesh and its axis that divide the batch of `x`, or None for one device."""
    return None if len(_devices(x)) == 1 else _division()


def why_undivided(x):
    """Return why a kernel cannot be called on each device for its part of `x`, or None."""
    devices, division = _devices(x), _division()
    if len(devices) == 1:
        return None
    if division is None:
        return "it requires a single device, or a `keras.distribution` that shards the batch"
    mesh, axis = division
    if set(devices) != set(mesh.devices.flat):
        return "it requires a tensor on the devices of `keras.distribution`"
    parts, batch = mesh.shape[axis], x.shape[0]
    if not isinstance(batch, int) or batch % parts:
        return f"it requires a batch size divisible by the {parts} shards of `keras.distribution`"
    if any(_sharding(x)[1:]):
        return "it requires tokens and channels that are not sharded"
    return None


def divided(function, division):
    """Return `function` of batches, called on every device for its part of the batch."""
    if division is None:
        return function
    mesh, axis = division
    specs = PartitionSpec(axis)
    # Kernels do not declare the axes of the mesh along which results differ, so skip the check.
    return jax.shard_map(function, mesh=mesh, in_specs=specs, out_specs=specs, check_vma=False)


def devices_of_program():
    """Return the devices that a traced function is compiled for, as far as they are known.

    These are the devices of `keras.distribution`, or else the default devices; inside a `shard_map`
    one of them.
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
    return distribution.device_mesh.backend_mesh, distribution.batch_dim_name


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
    """Return why a call does not run on a single CPU, or None if it does."""
    devices = call.hardware.devices
    return None if devices == 1 else f"it requires tokens on one device, found {devices}"


CAPABILITY = (8, 0)  # oldest compute capability for which the kernels compile
JAX = (0, 11)  # oldest version that `jax_triton` supports
FREE = "it requires a known number of samples"
ROOMY = ("TPU v5 lite", "TPU v6 lite")  # 128 MiB of VMEM
TOKENS = 4096  # most tokens of a sample on other chips, with 16 to 32 MiB
LARGEST = 16384  # most tokens of a sample, or a part of it, in a kernel on a TPU
LEAST = 1024  # fewest tokens of such a part
OLD = ("TPU v2", "TPU v3", "TPU v4", "TPU v4 lite")  # lack an instruction that sorts need


def limit_of_gpu(call):
    """Return why the kernels do not support a call on its GPU, or None if they do."""
    if call.shape[0] is None:
        return FREE
    if jax.__version_info__ < JAX:
        return f"it requires JAX 0.11, found {jax.__version__}"
    found = re.fullmatch(r"(\d+)\.(\d+)", getattr(call.hardware.chip, "compute_capability", ""))
    if found and tuple(map(int, found.groups())) >= CAPABILITY:
        return call.hardware.undivided
    return f"it requires an NVIDIA GPU of compute capability 8.0, found {_name(call)}"


def limit_of_tpu(call):
    """Return why the kernels do not support a call on its TPU, or None if they do."""
    if call.shape[0] is None:
        return FREE
    plan, tokens = call.plan, call.shape[1]
    sorts = plan.group_size != 1 and (plan.aligned or not (tokens and plan.in_pairs(tokens)))
    if call.hardware.chip.device_kind in OLD and sorts:
        return f"it requires a TPU v5 or newer to sort, found {_name(call)}"
    most = TOKENS // 2 if call.masked else TOKENS
    if call.hardware.chip.device_kind not in ROOMY and tokens and tokens > most:
        return f"it supports at most {most} tokens on {_name(call)}"
    if tokens and tokens > TOKENS and call.masked:  # the compiler would take minutes
        return f"it supports masks of at most {TOKENS} tokens"
    if tokens and part_of(tokens) < min(tokens, LEAST):
        return f"it requires tokens that divide into parts of {LEAST} to {LARGEST}"
    return call.hardware.undivided


@lru_cache(maxsize=256)
def part_of(tokens):
    """Return the tokens of the largest parts for kernels, an even number if `tokens` is even."""
    step = 2 - tokens % 2
    return max(size for size in range(step, LARGEST + 1, step) if tokens % size == 0)


def _name(call):
    chip = call.hardware.chip
    capability = getattr(chip, "compute_capability", None)
    return f"a {chip.device_kind}" + (f" ({capability})" if capability else "")
