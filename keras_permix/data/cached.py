"""Arrays that take long to make, made once and kept in files."""

import json
import os
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

import numpy as np

from keras_permix.utils.files import cache_folder, replacing_folder, sha256_of, write_text

Arrays: TypeAlias = dict[str, np.ndarray]
MANY = 10_000  # samples; fewer are made again in seconds
LIST = "arrays.json"  # names of the arrays and bytes of their files, written last


def cached_samples(count: int, name: str, content: bytes, make: Callable[[], Arrays]) -> Arrays:
    """What `cached_arrays` gives of `count` samples; of less than `MANY`, what `make` gives."""
    return make() if count < MANY else cached_arrays(name, content, make)


def cached_arrays(name: str, content: bytes, make: Callable[[], Arrays]) -> Arrays:
    """Arrays that belong to a content, read from a cache if they have been made before.

    They are kept in `data/NAME-CHECKSUM/` of `cache_folder()`, one `.npy` file each, whole or not
    at all whichever processes make them at once. Nothing else lies there: what is no longer wanted
    can be removed at any time. Where nothing can be written, they are made anew each time, with a
    warning.

    Args:
        name: What they are called.
        content: All that they depend on.
        make: Makes them: a dict of arrays by name.

    Returns:
        The arrays, memory-mapped and read-only where they come from files.

    Example:

    >>> import numpy as np
    >>> from keras_permix.data.cached import cached_arrays
    >>> cached_arrays("squares", b"0 to 3", lambda: {"x": np.arange(4) ** 2})["x"].tolist()
    [0, 1, 4, 9]
    """
    folder = cache_folder() / "data" / f"{name}-{sha256_of(content)[:16]}"
    kept = _read(folder)
    if kept is not None:
        return kept
    arrays = make()
    try:
        with replacing_folder(folder) as partial:
            for key, array in arrays.items():
                with open(partial / f"{key}.npy", "wb") as file:
                    np.save(file, array, allow_pickle=False)
                    file.flush()
                    os.fsync(file.fileno())
            write_text(partial / LIST, json.dumps(_sizes(partial)))
    except OSError as error:
        warnings.warn(
            f"{name} is prepared anew each time: {folder} cannot be written ({error}). "
            "`KERAS_HOME` may name another folder to keep it in.",
            stacklevel=2,
        )
        return arrays
    return _read(folder) or arrays


def _read(folder: Path) -> Arrays | None:
    """The arrays of a folder; `None` where there are none, or damaged ones."""
    try:
        if json.loads((folder / LIST).read_text(encoding="utf-8")) != _sizes(folder):
            return None
        return {
            path.stem: np.load(path, mmap_mode="r", allow_pickle=False)
            for path in sorted(folder.glob("*.npy"))
        }
    except (OSError, ValueError, EOFError):
        return None


def _sizes(folder: Path) -> dict[str, int]:
    return {path.name: path.stat().st_size for path in sorted(folder.glob("*.npy"))}
