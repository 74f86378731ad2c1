"""The machine in words, for records of measurements, and its memory."""

import ctypes
import os
import platform
import sys
from pathlib import Path

TRIM_THRESHOLD, MMAP_THRESHOLD, ARENA_MAX = -1, -3, -8  # of mallopt(3)


def machine() -> str:
    """Processor and cores this process may use, e.g. "Intel(R) Xeon(R) Processor, cores: 2"."""
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text(encoding="utf-8").splitlines() if cpuinfo.is_file() else []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    name = names[0] if names else platform.processor() or platform.machine()
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return f"{name}, cores: {cores}"


def keep_freed_memory() -> None:
    """Have glibc keep freed memory for the next tensor, in place of giving it back to Linux.

    Whether it gives large blocks back hangs on the thread that frees them and on what else lies on
    its heap; to get them again, page by page, takes longer than a fast operator. The memory of the
    process stays at its peak. Call it once, before the backend computes anything and starts its
    threads. With another system or allocator it does nothing.

    Example:

    >>> from keras_permix.machine import keep_freed_memory
    >>> keep_freed_memory()
    """
    if sys.platform == "linux" and hasattr(libc := ctypes.CDLL(None), "mallopt"):
        libc.mallopt(MMAP_THRESHOLD, 32 << 20)  # the largest that it accepts
        libc.mallopt(TRIM_THRESHOLD, 1 << 30)
        libc.mallopt(ARENA_MAX, 1)
