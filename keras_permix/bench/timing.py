"""Measure time and memory of calls, compiled where the backend compiles."""

import ctypes
import re
import statistics
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from time import perf_counter
from typing import Any

from keras_permix._typing import Tensor

ROUND = 0.05  # seconds


def wall_seconds(call: Callable[[], Any]) -> float:
    """Return the wall time of a call in seconds."""
    start = perf_counter()
    call()
    return perf_counter() - start


def seconds(call: Callable[[], Any]) -> float:
    """Return the time of a call in seconds, by GPU events on PyTorch, else by wall time."""
    return _runtime().seconds(call)


def _runtime():
    from keras_permix.ops.backend import running  # imports Keras

    return running.module("runtime")


def medians(
    functions: Sequence[Callable[[], Any]],
    repeats: int,
    clock: Callable[[Callable[[], Any]], float] = wall_seconds,
) -> list[float]:
    """Return the median time per call of each function, in milliseconds.

    Functions alternate, so that a slow phase of the machine affects all of them. Each round starts
    with one call that is not counted, followed by calls for `ROUND` seconds.
    """
    times: list[list[float]] = [[] for _ in functions]
    for _ in range(repeats):
        for function, measured in zip(functions, times, strict=True):
            clock(function)
            left = ROUND
            while left > 0:
                measured.append(clock(function))
                left -= measured[-1]
    return [1e3 * statistics.median(measured) for measured in times]


def runners(
    function: Callable[[Tensor], Tensor], x: Tensor
) -> tuple[Callable[[], list[Tensor]], Callable[[], list[Tensor]]]:
    """Make two calls to time with `seconds`, which waits until the results are ready.

    `function` is a function of one tensor, or a built layer. The first call computes it, and
    returns a list of the result. The second appends the gradients for `x` and for the weights of a
    layer. The loss is half the sum of squares, because equal gradients would hide a wrong
    permutation. Gradients are returned because a compiler would omit unused ones.
    """
    import keras

    weights = [weight.value for weight in getattr(function, "trainable_variables", [])]
    return _runtime().make_runners(function, keras.ops.convert_to_tensor(x), weights)


def peak_megabytes(function: Callable[[], Any]) -> float | None:
    """Return the peak memory of a call, above the memory in use before it, in MB.

    On an accelerator it is device memory, as reported by PyTorch and TensorFlow (`None` on JAX). On
    a CPU it is the resident memory of the process on Linux. It is `None` on other systems and on
    TensorFlow, which keeps the memory that it frees.
    """
    from keras_permix.ops.backend import running  # imports Keras

    function()  # Compile first.
    number = accelerator()
    if number is not None:
        peak = _runtime().peak_bytes(function, number)
        return None if peak is None else peak / 1e6
    if sys.platform != "linux" or running.keeps_freed_memory():
        return None
    return max(_peak(function) for _ in range(5))  # JAX may free memory of an earlier call late


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
