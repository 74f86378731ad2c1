"""Timing of functions against each other."""

import statistics
from collections.abc import Callable, Sequence
from time import perf_counter
from typing import Any

ROUND = 0.05  # seconds


def wall_seconds(call: Callable[[], Any]) -> float:
    """How long a call takes by the clock."""
    start = perf_counter()
    call()
    return perf_counter() - start


def medians(
    functions: Sequence[Callable[[], Any]],
    repeats: int,
    clock: Callable[[Callable[[], Any]], float] = wall_seconds,
) -> list[float]:
    """Median time of a call of each function, in milliseconds, by a clock of calls.

    They alternate, so that a slow moment of the machine meets all. A round of each is one call that
    does not count, since it begins with the caches and the memory that another function has left,
    and then calls that do, for `ROUND` seconds.
    """
    seconds: list[list[float]] = [[] for _ in functions]
    for _ in range(repeats):
        for function, measured in zip(functions, seconds, strict=True):
            clock(function)
            left = ROUND
            while left > 0:
                measured.append(clock(function))
                left -= measured[-1]
    return [1e3 * statistics.median(measured) for measured in seconds]
