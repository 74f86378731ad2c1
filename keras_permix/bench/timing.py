"""Time functions against each other."""

import statistics
from collections.abc import Callable, Sequence
from time import perf_counter
from typing import Any

ROUND = 0.05  # seconds


def wall_seconds(call: Callable[[], Any]) -> float:
    """Return the wall time of a call in seconds."""
    start = perf_counter()
    call()
    return perf_counter() - start


def medians(
    functions: Sequence[Callable[[], Any]],
    repeats: int,
    clock: Callable[[Callable[[], Any]], float] = wall_seconds,
) -> list[float]:
    """Return the median time per call of each function, in milliseconds.

    Functions alternate, so that a slow phase of the machine affects all of them. Each round starts
    with one call that is not counted, followed by calls for `ROUND` seconds.
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
