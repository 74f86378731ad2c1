"""Timing of functions against each other."""

import statistics
from collections.abc import Callable, Sequence
from time import perf_counter
from typing import Any

ROUND = 0.05  # seconds


def medians(functions: Sequence[Callable[[], Any]], repeats: int) -> list[float]:
    """Median time of a call of each function, in milliseconds.

    They alternate, so that a slow moment of the machine meets all. A round of each is one call that
    is not timed, since it begins with the caches and the memory that another function has left, and
    then calls that are, for `ROUND` seconds.
    """
    seconds: list[list[float]] = [[] for _ in functions]
    for _ in range(repeats):
        for function, measured in zip(functions, seconds, strict=True):
            function()
            start = now = perf_counter()
            while now < start + ROUND:
                function()
                measured.append(perf_counter() - now)
                now += measured[-1]
    return [1e3 * statistics.median(measured) for measured in seconds]
