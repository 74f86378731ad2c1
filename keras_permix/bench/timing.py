"""Timing of functions against each other."""

import ctypes
import statistics
import sys
from time import perf_counter

TURN = 0.05  # seconds
TRIM_THRESHOLD, MMAP_THRESHOLD, ARENA_MAX = -1, -3, -8  # of mallopt(3)


def medians(functions, repeats):
    """Median time of a call of each function, in milliseconds.

    They take turns, so that a slow moment of the machine meets all. A turn is one call that is not
    timed, since it begins with the caches and the memory that another function has left, and then
    calls that are, for `TURN` seconds.
    """
    seconds = [[] for _ in functions]
    for _ in range(repeats):
        for function, measured in zip(functions, seconds, strict=True):
            function()
            start = now = perf_counter()
            while now < start + TURN:
                function()
                measured.append(perf_counter() - now)
                now += measured[-1]
    return [1e3 * statistics.median(measured) for measured in seconds]


def keep_freed_memory():
    """Have glibc keep freed memory, as most of it is in the steady state of a training.

    Whether it gives large blocks back to Linux hangs on the thread that frees them and on what
    else lies on its heap; to get them again, page by page, takes longer than a fast operator.
    To be called before the backend starts its threads.
    """
    if sys.platform == "linux" and hasattr(libc := ctypes.CDLL(None), "mallopt"):
        libc.mallopt(MMAP_THRESHOLD, 32 << 20)  # the largest that it accepts
        libc.mallopt(TRIM_THRESHOLD, 1 << 30)
        libc.mallopt(ARENA_MAX, 1)
