"""Data files of one sample per line: JSON lines, or values under a header."""

import csv
import gzip
import io
import json
import lzma
import zlib
from pathlib import Path

from keras_permix.data.files import need_folder, read_file

UNPACK = {".gz": gzip.decompress, ".xz": lzma.decompress}


def read_parts(name, known, data_dir=None, *, train=None, test=None, splits=(None, None)):
    """Read the training and the test rows of a set.

    A set of `known` is looked for in `data_dir`, else in the folder that the environment variable
    `KERAS_PERMIX_DATA` names. Another set names its own files, relative to `data_dir`.

    Args:
        name: What the set is called.
        known: Dict from names of sets to `train`, `test` and `splits` of their files, and to
            `columns`, their names, where a file has no header.
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
        files = known[name]
        names = (files["train"], files["test"])
        folder = need_folder(data_dir, names)
        return _parts(folder, names, files["splits"], files.get("columns"))
    if train is None or test is None:
        raise ValueError(
            f"`name` must be one of {', '.join(known)}, or the recipe's `data` name the files "
            f"`train` and `test`. Received: name={name!r}, train={train!r}, test={test!r}"
        )
    return _parts(Path(data_dir or "."), (train, test), splits)


def read_rows(path, columns=None):
    """The rows of a `.jsonl`, `.tsv` or `.csv` file, perhaps with `.gz` or `.xz`, as dicts.

    The first row of values names the columns, unless `columns` of a `.csv` file do.
    """
    path = Path(path)
    blob = read_file(path)
    try:
        text = UNPACK.get(path.suffix, bytes)(blob).decode("utf-8")
        return _rows(text, path, columns)
    except (ValueError, csv.Error, lzma.LZMAError, EOFError, OSError, zlib.error) as error:
        raise ValueError(
            "A data file must be whole: JSON objects, one per line (.jsonl), or values under a "
            "header, tab-separated (.tsv) or comma-separated (.csv), in UTF-8. "
            f"Received: {path} ({error})"
        ) from error


def _parts(folder, names, splits, columns=None):
    read = {name: read_rows(folder / name, columns) for name in dict.fromkeys(names)}
    parts = [
        [row for row in read[name] if split is None or row.get("split") == split]
        for name, split in zip(names, splits, strict=True)
    ]
    if not all(parts):
        raise ValueError(
            "`train` and `test` must hold a row each. "
            f"Received: {len(parts[0])} and {len(parts[1])} rows of {names} with splits={splits}"
        )
    return parts


def _rows(text, path, columns):
    kinds = [suffix for suffix in path.suffixes if suffix not in UNPACK]
    if kinds[-1:] == [".csv"]:
        lines = io.StringIO(text.removeprefix("\ufeff"), newline="")  # as Excel begins UTF-8
        return list(csv.DictReader(lines, columns, strict=True, skipinitialspace=True))
    if kinds[-1:] == [".tsv"]:
        header, *rows = (line.removesuffix("\r").split("\t") for line in text.split("\n"))
        return [dict(zip(header, row, strict=False)) for row in rows if row != [""]]
    rows = [json.loads(line) for line in text.split("\n") if line.strip()]
    if not all(isinstance(row, dict) for row in rows):
        raise ValueError("not every line is a JSON object")
    return rows
