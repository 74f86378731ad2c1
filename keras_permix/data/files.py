"""Find, check and read data files."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from keras_permix._typing import StrPath
from keras_permix.utils.files import read_with_sha256
from keras_permix.utils.tables import Rows, parse_rows, shown

DATA_VARIABLE = "KERAS_PERMIX_DATA"

# SHA-256 of known files by name. Those of official archives are from Keras 3.15 and TFDS 4.9.
SUMS = Path(__file__).with_name("SHA256SUMS").read_text(encoding="utf-8")
SHA256 = {name: digest for digest, name in map(str.split, SUMS.splitlines())}


def data_folder(data_dir):
    """Return `data_dir`, else the folder in `KERAS_PERMIX_DATA`, else None; it must exist."""
    name, folder = "`data_dir` (`--data-dir`)", data_dir
    if data_dir is None:
        name, folder = f"`{DATA_VARIABLE}`", os.environ.get(DATA_VARIABLE)
    if not folder:
        return None
    if not Path(folder).is_dir():
        raise FileNotFoundError(f"{name} must be an existing folder. Received: {folder}")
    return Path(folder)


def find_layout(data_dir, layouts, or_none=False):
    """Find the first file layout of a set that exists in the data folder.

    A layout is a tuple of the names of all its files or folders. The results are the folder and the
    layout. If no layout is found, raise an error; with `or_none`, return `None` for a download
    instead, unless `data_dir` is given.
    """
    folder = data_folder(data_dir)
    for names in layouts if folder else ():
        if all((folder / name).exists() for name in names):
            return folder, names
    if or_none and data_dir is None:
        return None
    listed = ", or ".join(" and ".join(dict.fromkeys(names)) for names in layouts)
    raise FileNotFoundError(
        f"Set {DATA_VARIABLE} (or `data_dir`, `--data-dir`) to a folder that contains {listed}. "
        f"Received: {f'{folder} without these files' if folder else 'no folder'}"
    )


def read_file(path):
    """Read a data file, and check the SHA-256 of known files."""
    path = Path(path)
    if path.name not in SHA256:
        return path.read_bytes()
    return read_with_sha256(path, SHA256[path.name])


def read_parts(name, known, data_dir=None, *, train=None, test=None, splits=(None, None)):
    """Read the training and the test rows of a set.

    `known` maps the names of known sets to tuples of `Files`, one per file layout. They are read
    from `data_dir`, else from the folder in `KERAS_PERMIX_DATA`. Custom sets give `train`, `test`
    and `splits` of `Files`, relative to `data_dir`. The results are two lists of dicts.
    """
    read = read_own
    if train is None and test is None and name in known:
        layouts = {(files.train, files.test): files for files in known[name]}
        folder, names = find_layout(data_dir, layouts)
        splits, read = layouts[names].splits, layouts[names].read
    elif train is None or test is None:
        rule = f"`name` must be one of {', '.join(known)}, or have the files `train` and `test`"
        raise ValueError(f"{rule}. Received: {name=}, {train=}, {test=}")
    else:
        folder, names = Path(data_dir or "."), (train, test)
        splits = part_names(splits)
    return read_lists(folder, list(zip(names, splits, strict=True)), read)


def part_names(splits, validation=None):
    """Return the names of the training part, the test part and any validation part."""
    if isinstance(splits, str) or len(splits) != 2 or validation and validation in splits:
        rule = "`splits` must name the training and the test part; `validation` names a third one"
        raise ValueError(f"{rule}. Received: {splits=}, {validation=}")
    return (*splits, *([] if validation is None else [validation]))


def read_rows(path: StrPath, columns: tuple[str, ...] | None = None) -> Rows:
    """Read the rows of a file with `parse_rows`; check the SHA-256 of known files."""
    return parse_rows(read_file(path), Path(path), columns)


def read_own(path):
    """Read the rows of a custom file, without the checksum of a known file of the same name."""
    return parse_rows(path.read_bytes(), path)


def read_lists(folder, lists, read=read_rows):
    """Read pairs of a file and a value in "split", or `None` for all rows; each file once."""
    rows = {file: read(folder / file) for file, _ in lists}
    parts = [[row for row in rows[f] if split in (None, row.get("split"))] for f, split in lists]
    if not all(parts):
        raise ValueError(f"Every part must have rows. Received: {list(map(len, parts))} of {lists}")
    return parts


def read_row(row: dict[str, Any], read: Callable[[dict[str, Any]], Any], rule: str) -> Any:
    """Return `read(row)`. An error states the rule, the row and the reason."""
    try:
        return read(row)
    except (LookupError, TypeError, ValueError) as error:
        reason = f"{type(error).__name__}: {error}"
        raise ValueError(f"{rule} Received: {shown(row)} ({reason})") from error


class Files(NamedTuple):
    """Locate the two parts of a set, in one of its file layouts."""

    train: str  # file or folder, relative to the data folder
    test: str  # may be the same
    splits: tuple[str | None, str | None] = (None, None)  # values in "split"; None: all rows
    read: Callable[[Path], Rows] = read_rows
