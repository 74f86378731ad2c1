"""Timing of functions against each other."""

import statistics
from time import perf_counter

TURN = 0.05  # seconds


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
