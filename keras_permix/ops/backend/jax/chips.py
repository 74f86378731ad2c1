"""Which GPUs and TPUs the kernels are for, by what JAX says of a device."""

import re

CAPABILITY = (8, 0)  # the least for which NVIDIA's compiler takes the kernels
SMALL = ("TPU v2", "TPU v3", "TPU v4", "TPU v4 lite")  # 16 MiB of VMEM
MOST_IN_SMALL = 2048  # tokens of a group that is sorted there


def limit_of_gpu(call):
    """Why the kernels cannot serve a call on its GPU, or None if they can."""
    found = re.fullmatch(r"(\d+)\.(\d+)", getattr(call.place.chip, "compute_capability", ""))
    if found and tuple(map(int, found.groups())) >= CAPABILITY:
        return call.place.undivided
    return f"it needs an NVIDIA GPU of compute capability 8.0, and this is {_name(call)}"


def limit_of_tpu(call):
    """Why the kernels cannot serve a call on its TPU, or None if they can."""
    group = call.plan.group_size or call.shape[1]
    if call.place.chip.device_kind in SMALL and group > MOST_IN_SMALL:
        return f"it takes groups of at most {MOST_IN_SMALL} tokens on {_name(call)}"
    return call.place.undivided


def _name(call):
    chip = call.place.chip
    capability = getattr(chip, "compute_capability", None)
    return f"a {chip.device_kind}" + (f" ({capability})" if capability else "")
