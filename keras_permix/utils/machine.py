"""The machine in words, for records of measurements, and its memory."""

import ctypes
import os
import platform
import re
import sys
from pathlib import Path

TRIM_THRESHOLD, MMAP_MAX, ARENA_MAX = -1, -4, -8  # of mallopt(3)
# What errors say, each backend's its own.
TOO_MUCH = (
    "out of memory", "resource_exhausted", "resource exhausted", "unable to allocate",
    "can't allocate memory", "oom when allocating", "failed to allocate", "alloc_failed",
    "bad_alloc",
)  # fmt: skip


def machine() -> str:
    """Processor and cores this process may use, e.g. "Intel(R) Xeon(R) Processor, cores: 2"."""
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text(encoding="utf-8").splitlines() if cpuinfo.is_file() else []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    name = names[0] if names else platform.processor() or platform.machine()
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return f"{name}, cores: {cores}"


def driver(nvidia: Path = Path("/proc/driver/nvidia/version")) -> str:
    """What drives the accelerators: "NVIDIA 570.133.20", "libtpu 0.0.42", or "" if neither does.

    Args:
        nvidia: The file in which NVIDIA's kernel module says its version.
    """
    if nvidia.is_file():
        found = re.search(r"Kernel Module.*?\s(\d+(\.\d+)+)\s", nvidia.read_text(encoding="utf-8"))
        return f"NVIDIA {found[1]}" if found else "NVIDIA"
    from importlib.metadata import PackageNotFoundError, version

    try:
        return f"libtpu {version('libtpu')}"
    except PackageNotFoundError:
        return ""


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an error says that memory, of the host or of a device, does not suffice."""
    return isinstance(error, MemoryError) or any(words in str(error).lower() for words in TOO_MUCH)


def keep_freed_memory() -> None:
    """Have glibc keep freed memory for the next tensor, in place of giving it back to Linux.

    To get a block again takes Linux, page by page, longer than a fast operator takes to fill it,
    and XLA gets one of some hundred megabytes for every training step on a CPU. The memory of the
    process stays at its peak. Call it once, before the backend computes anything and starts its
    threads. With another system or allocator it does nothing.

    Example:

    >>> from keras_permix.utils.machine import keep_freed_memory
    >>> keep_freed_memory()
    """
    if sys.platform == "linux" and hasattr(libc := ctypes.CDLL(None), "mallopt"):
        libc.mallopt(MMAP_MAX, 0)  # No block has pages of its own, which would go back with it.
        libc.mallopt(TRIM_THRESHOLD, -1)  # never
        libc.mallopt(ARENA_MAX, 1)  # The heaps of further arenas hold no large block.
