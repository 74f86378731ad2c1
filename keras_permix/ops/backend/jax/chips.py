"""Which GPUs and TPUs the kernels are for, by what JAX says of a device."""

import re
from importlib.util import find_spec

CAPABILITY = (8, 0)  # the least for which NVIDIA's compiler takes the kernels
PALLAS = "jax.experimental.pallas.triton"  # deprecated as of JAX 0.11
FREE = "it needs a known number of samples"
OLD = ("TPU v2", "TPU v3", "TPU v4", "TPU v4 lite")  # without an instruction that sorts need


def limit_of_gpu(call):
    """Why the kernels cannot serve a call on its GPU, or None if they can."""
    if call.shape[0] is None:
        return FREE
    if not find_spec(PALLAS):
        return f"it needs `{PALLAS}`, which this JAX has not"
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
    return call.hardware.undivided


def _name(call):
    chip = call.hardware.chip
    capability = getattr(chip, "compute_capability", None)
    return f"a {chip.device_kind}" + (f" ({capability})" if capability else "")
