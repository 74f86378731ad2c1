"""Data files of one sample per line: JSON lines, or values under a header."""

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from keras_permix._typing import StrPath
from keras_permix.data.files import DATA_VARIABLE, data_folder, read_file
from keras_permix.utils.tables import Rows, parse_rows


def read_parts(name, known, data_dir=None, *, train=None, test=None, splits=(None, None)):
    """Read the training and the test rows of a set.

    A set of `known` is looked for in `data_dir`, else in the folder that the environment variable
    `KERAS_PERMIX_DATA` names. Another set names its own files, relative to `data_dir`.

    Args:
        name: What the set is called.
        known: Dict from names of sets to the `Files` that they may come in.
        data_dir: Folder of the files, or `None`.
        train, test: Files of a set that is not known; they may be the same one.
        splits: What the rows of either part say under "split"; `None`: all rows of the file.

    Returns:
        Two lists of dicts.

    Raises:
        ValueError: for a set that is neither known nor names its files, or a damaged file.
        FileNotFoundError: for a missing file.
    """
    if train is None and test is None and name in known:
        folder, files = _find(data_dir, known[name])
        return _parts(folder, files)
    if train is None or test is None:
        raise ValueError(
            f"`name` must be one of {', '.join(known)}, or the recipe's `data` name the files "
            f"`train` and `test`. Received: name={name!r}, train={train!r}, test={test!r}"
        )
    return _parts(Path(data_dir or "."), Files(train, test, splits))


def _find(data_dir, forms):
    """The folder of a set, and the first of its forms that lies there."""
    folder = data_folder(data_dir)
    for files in forms if folder else ():
        if all((folder / name).exists() for name in (files.train, files.test)):
            return folder, files
    names = ", or ".join(" and ".join(dict.fromkeys((form.train, form.test))) for form in forms)
    raise FileNotFoundError(
        f"Set {DATA_VARIABLE} (or `data_dir`, `--data-dir`) to a folder that holds {names}. "
        f"Received: {f'{folder}, without' if folder else 'no folder'}"
    )


def read_rows(path: StrPath, columns: tuple[str, ...] | None = None) -> Rows:
    """The rows of a file, as `parse_rows` reads them; a known file must be what it was."""
    return parse_rows(read_file(path), Path(path), columns)


class Files(NamedTuple):
    """Where the two parts of a set lie, one form of it.

    Args:
        train, test: Files, or folders, relative to the folder of the data; they may be the same.
        splits: What the rows of either part say under "split"; `None`: all rows are of the part.
        read: Function from a path to its rows, dicts.
    """

    train: str
    test: str
    splits: tuple[str | None, str | None] = (None, None)
    read: Callable[[Path], Rows] = read_rows


def _parts(folder, files):
    names = (files.train, files.test)
    rows = {name: files.read(folder / name) for name in dict.fromkeys(names)}
    parts = [
        [row for row in rows[name] if split is None or row.get("split") == split]
        for name, split in zip(names, files.splits, strict=True)
    ]
    if not all(parts):
        raise ValueError(
            "`train` and `test` must hold a row each. "
            f"Received: {len(parts[0])} and {len(parts[1])} rows of {names} with "
            f"splits={files.splits}"
        )
    return parts
