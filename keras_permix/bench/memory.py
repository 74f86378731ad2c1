"""Measure the peak memory of a call."""

import ctypes
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any


def peak_megabytes(function: Callable[[], Any]) -> float | None:
    """Return the peak memory of a call, above the memory in use before it, in MB.

    On an accelerator it is device memory, as reported by PyTorch and TensorFlow (`None` on JAX). On
    a CPU it is the resident memory of the process on Linux (`None` on other systems), without
    memory that the backend already holds in a pool.
    """
    from keras_permix.ops.backend import running  # Keras comes with it

    function()  # Compile first.
    number = accelerator()
    if number is not None:
        peak = running.module("runtime").peak_bytes(function, number)
        return None if peak is None else peak / 1e6
    if sys.platform != "linux":
        return None
    # Twice, because a backend may free memory of an earlier call late.
    return max(_peak(function) for _ in range(2))


def accelerator() -> int | None:
    """Return the index of the current GPU or TPU, or `None` on a CPU."""
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
    """Return a field of the process status in kilobytes."""
    status = Path("/proc/self/status").read_text(encoding="utf-8")
    return int(re.search(rf"{field}:\s+(\d+) kB", status)[1])
