"""How much memory a call takes at its peak."""

import ctypes
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any


def peak_megabytes(function: Callable[[], Any]) -> float | None:
    """Resident memory of this process at its peak during a call, above what it had before, in MB.

    Linux counts it; elsewhere this is None. What the backend had in a pool of its own is not in it,
    nor is memory of an accelerator.
    """
    if sys.platform != "linux":
        return None
    function()  # Compile first.
    # Twice, since a backend may free what a call before has left only after the count has begun.
    return max(_peak(function) for _ in range(2))


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
