"""Cache arrays in files, and draw random ones in parallel."""

import contextlib
import itertools
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from filelock import FileLock

from keras_permix.utils.files import cache_folder, replacing_file, replacing_folder, sha256_of

Arrays: TypeAlias = dict[str, np.ndarray]
MANY = 10_000  # samples; smaller sets are not cached
ROUND = 8  # draws per list


def cached_arrays(
    name: str, content: bytes, make: Callable[[], Arrays], count: int = MANY
) -> Arrays:
    """Return arrays from the cache, memory-mapped and read-only, or make and cache them.

    Each array is a `.npy` file in `data/NAME-CHECKSUM/` of `cache_folder()`, with the checksum of
    `content`, the bytes that determine the arrays. The folder is written atomically and can be
    deleted at any time. If it cannot be written, the arrays are made on every call, with a warning.
    Sets of fewer than 10,000 samples (`count`) are not cached.
    """
    if count < MANY:
        return make()
    folder = cache_folder() / "data" / f"{name}-{sha256_of(content)[:16]}"
    kept = _read(folder)
    if kept is not None:
        return kept
    with contextlib.ExitStack() as stack:
        with contextlib.suppress(OSError):  # of a folder that cannot be written
            folder.parent.mkdir(parents=True, exist_ok=True)
            # Several processes of a run load it at once.
            stack.enter_context(FileLock(folder.parent / f".{name}.lock"))
            kept = _read(folder)
        return _made(name, folder, make) if kept is None else kept


def _made(name, folder, make):
    """Make arrays, and write them to a folder if it can be written."""
    arrays = make()
    try:
        with replacing_folder(folder) as partial:
            for key, array in arrays.items():
                with replacing_file(partial / f"{key}.npy") as file:
                    np.save(file, array, allow_pickle=False)
    except OSError as error:
        warnings.warn(
            f"{name} is not cached: {folder} cannot be written ({error}). Set `KERAS_HOME` to "
            "cache it in another folder.",
            stacklevel=3,
        )
    return _read(folder) or arrays


def draw_rounds(draw: Callable[[np.random.Generator], Any], seed: int) -> Iterator[list[Any]]:
    """Yield endless lists of `ROUND` results of `draw`, the same for any number of threads.

    Each draw gets a generator seeded by `seed` and the index of the draw. Draws run in threads,
    since NumPy releases Python's global lock while it works on large arrays.
    """
    with ThreadPoolExecutor(ROUND) as pool:
        for start in itertools.count(0, ROUND):
            seeds = [(seed, number) for number in range(start, start + ROUND)]
            yield list(pool.map(draw, map(np.random.default_rng, seeds)))


def _read(folder: Path) -> Arrays | None:
    """Read the arrays of a folder; return `None` if there is no array, or one is truncated."""
    try:
        found = {path.stem: np.load(path, mmap_mode="r") for path in folder.glob("*.npy")}
    except (OSError, ValueError, EOFError):
        return None
    return found or None
