"""Describe the machine for benchmark records, and configure its memory allocator."""

import ctypes
import os
import platform
import re
import sys
from pathlib import Path

TRIM_THRESHOLD, MMAP_MAX, ARENA_MAX = -1, -4, -8  # of mallopt(3)
# Parts of the error messages of all backends.
TOO_MUCH = (
    "out of memory", "resource_exhausted", "resource exhausted", "unable to allocate",
    "can't allocate memory", "oom when allocating", "failed to allocate", "alloc_failed",
    "bad_alloc",
)  # fmt: skip


def machine() -> str:
    """Return processor and usable cores, e.g. "Intel(R) Xeon(R) Processor, cores: 2"."""
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text(encoding="utf-8").splitlines() if cpuinfo.is_file() else []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    name = names[0] if names else platform.processor() or platform.machine()
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return f"{name}, cores: {cores}"


def driver(nvidia: Path = Path("/proc/driver/nvidia/version")) -> str:
    """Return the accelerator driver: "NVIDIA 570.133.20", "libtpu 0.0.42", or ""."""
    if nvidia.is_file():
        found = re.search(r"Kernel Module.*?\s(\d+(\.\d+)+)\s", nvidia.read_text(encoding="utf-8"))
        return f"NVIDIA {found[1]}" if found else "NVIDIA"
    from importlib.metadata import PackageNotFoundError, version

    try:
        return f"libtpu {version('libtpu')}"
    except PackageNotFoundError:
        return ""


def is_out_of_memory(error: BaseException) -> bool:
    """Return whether an error reports that the host or a device is out of memory."""
    return isinstance(error, MemoryError) or any(words in str(error).lower() for words in TOO_MUCH)


def keep_freed_memory() -> None:
    """Keep freed memory in the process instead of returning it to Linux.

    Allocating a large block again takes Linux longer than a fast op takes to fill it. XLA allocates
    hundreds of megabytes per training step on a CPU. With this setting, the memory of the process
    stays at its peak.

    Call it once, before the backend computes anything. It has no effect without glibc.
    """
    if sys.platform == "linux" and hasattr(libc := ctypes.CDLL(None), "mallopt"):
        libc.mallopt(MMAP_MAX, 0)  # never allocate blocks with mmap, which free returns
        libc.mallopt(TRIM_THRESHOLD, -1)  # never
        libc.mallopt(ARENA_MAX, 1)  # heaps of other arenas cannot hold large blocks
