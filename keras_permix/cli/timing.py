"""Timing of functions against each other."""

import statistics
import time


def medians(functions, repeats):
    """Median time of each function in milliseconds; they take turns."""
    seconds = [[] for _ in functions]
    for turn in range(repeats + 2):
        for function, measured in zip(functions, seconds, strict=True):
            start = time.perf_counter()
            function()
            if turn >= 2:
                measured.append(time.perf_counter() - start)
    return [1e3 * statistics.median(measured) for measured in seconds]
