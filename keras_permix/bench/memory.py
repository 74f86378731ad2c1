"""How much memory a call takes at its peak."""

import ctypes
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any


def peak_megabytes(function: Callable[[], Any]) -> float | None:
    """Memory at its peak during a call, above what was held before it, in MB.

    Where tensors are made on an accelerator, it is that of the device, as PyTorch and TensorFlow
    count it; `None` with JAX. Elsewhere it is resident memory of this process, as Linux counts it
    (`None` on other systems), without what the backend had in a pool of its own.
    """
    from keras_permix.ops.backend import running  # Keras comes with it

    function()  # Compile first.
    number = accelerator()
    if number is not None:
        peak = running.module("runtime").peak_bytes(function, number)
        return None if peak is None else peak / 1e6
    if sys.platform != "linux":
        return None
    # Twice, since a backend may free what a call before has left only after the count has begun.
    return max(_peak(function) for _ in range(2))


def accelerator() -> int | None:
    """The number of the GPU or TPU on which tensors are made now, `None` for a CPU."""
    import keras

    device = keras.ops.zeros(1).device
    devices = getattr(device, "device_set", [device])  # those of a mesh
    name = min(map(str, devices)).lower()
    if "cpu" in name:
        return None
    found = re.search(r"[a-z][:_](\d+)(?:\(|$)", name)
    return int(found[1]) if found else 0


def _peak(function):
    ctypes.CDLL(None).malloc_trim(0)
    Path("/proc/self/clear_refs").write_text("5", encoding="utf-8")  # Forget the peak so far.
    before = _resident("VmRSS")
    function()
    return (_resident("VmHWM") - before) / 1e3


def _resident(field):
    """A field of the process's status in kilobytes."""
    status = Path("/proc/self/status").read_text(encoding="utf-8")
    return int(re.search(rf"{field}:\s+(\d+) kB", status)[1])
