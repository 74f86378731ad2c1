"""Draw random samples in parallel, with the same result for any number of threads."""

import itertools
import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

ROUND = 8  # draws per list


def rounds(draw: Callable[[np.random.Generator], Any], seed: int) -> Iterator[list[Any]]:
    """Yield lists of `ROUND` results of `draw`, without end.

    Each draw gets a generator seeded by the seed and its number. Threads are sufficient because
    NumPy releases the lock while it works on large arrays.

    Args:
        draw: Function of a `numpy.random.Generator`.
        seed: Integer ≥ 0.
    """

    def one(number):
        return draw(np.random.default_rng((seed, number)))

    with ThreadPoolExecutor(min(ROUND, os.cpu_count() or 1)) as pool:
        for start in itertools.count(0, ROUND):
            yield list(pool.map(one, range(start, start + ROUND)))
