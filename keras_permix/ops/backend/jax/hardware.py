"""What a call runs on with JAX, and how `keras.distribution` divides its batch between devices.

XLA cannot divide a kernel. `divided` calls it on every device for that device's part of the batch.
"""

import re
from functools import partial
from typing import NamedTuple

import jax
import keras
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from keras_permix.ops.dispatch.rows import Hardware


class Division(NamedTuple):
    """Devices, and the axis of their mesh along which a batch is divided."""

    mesh: Mesh
    axis: str


def hardware(x):
    """What a call of `x` runs on; within a function that is being traced, what that is for."""
    devices, sure = _devices(x), not isinstance(x, jax.core.Tracer)
    chip = devices[0]
    if chip.platform == "cpu":
        return Hardware("cpu", len(devices), sure)
    return Hardware(chip.platform, len(devices), sure, chip, why_undivided(x))


def find_division(x):
    """How the batch of `x` is divided where kernels serve it, or None for one device."""
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
    """What a function that is being traced is for, as far as that is known.

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
    """Which axes of the mesh divide the axes of `x`, as far as that is known."""
    traced = isinstance(x, jax.core.Tracer)
    sharding = jax.typeof(x).sharding if traced else x.sharding
    return tuple(sharding.spec) if isinstance(sharding, NamedSharding) else ()


CAPABILITY = (8, 0)  # the least for which NVIDIA's compiler takes the kernels
JAX = (0, 11)  # the oldest that `jax_triton` lowers for
FREE = "it needs a known number of samples"
ROOMY = ("TPU v5 lite", "TPU v6 lite")  # have 128 MiB of VMEM, as tests compile
TOKENS = 4096  # of a sample on other chips, in 16 to 32 MiB
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
    if call.hardware.chip.device_kind not in ROOMY and tokens and tokens > TOKENS:
        return f"it takes at most {TOKENS} tokens on {_name(call)}"
    return call.hardware.undivided


def _name(call):
    chip = call.hardware.chip
    capability = getattr(chip, "compute_capability", None)
    return f"a {chip.device_kind}" + (f" ({capability})" if capability else "")
