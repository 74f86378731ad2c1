"""Drawing at random on all processors, with the same outcome on any number of them."""

import itertools
import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

ROUND = 8  # draws between two looks at what came


def rounds(draw: Callable[[np.random.Generator], Any], seed: int) -> Iterator[list[Any]]:
    """Yield what `draw` gives, a list of `ROUND` at a time, without end.

    Each draw has random numbers of its own, those of the seed and of its number. Threads do for
    NumPy, which lets others run while it works on large arrays.

    Args:
        draw: Function of a generator of random numbers.
        seed: Integer ≥ 0.
    """

    def one(number):
        return draw(np.random.default_rng((seed, number)))

    with ThreadPoolExecutor(min(ROUND, os.cpu_count() or 1)) as pool:
        for start in itertools.count(0, ROUND):
            yield list(pool.map(one, range(start, start + ROUND)))
