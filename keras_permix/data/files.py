"""Find, check and read data files."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from keras_permix._typing import StrPath
from keras_permix.utils.files import read_with_sha256
from keras_permix.utils.tables import Rows, parse_rows, shown

DATA_VARIABLE = "KERAS_PERMIX_DATA"

# SHA-256 and name of known files. Those of official archives are from Keras 3.15 and TFDS 4.9.
SUMS = """
4d1452f23a33bb45862a632e9f725438c732b9995638995b3ac18006645d7546  cifar10.zip
71524e2cd1ad2968737f7f2f2ff69cbfc32df8ccddff51593f7cb2d4e0eb5b64  mnist-train-images-idx3-ubyte.gz
fe03b8bd7915f70bf5aa08be480aa413fbd85afcaa58b35d230d335f284fd88e  mnist-train-labels-idx1-ubyte.gz
5634745efa576a17e7d4cf5cd9d09123c75e6538e5114267c2d156edaf519341  mnist-t10k-images-idx3-ubyte.gz
ae18e77e031ccde52407f794d123116439864147d33ac992975f85dd4dc42af6  mnist-t10k-labels-idx1-ubyte.gz
803408307be083160617d3a87f7249bc7f14bc9a0cc14ff5b70606939569caca  imdb_train.jsonl.xz
aa0f3efca775fe71551bbe2cca6e46dede2c0f620d5a78db939e0e91cf4a0f70  imdb_test.jsonl.xz
730a21d4ce53a1f214859c5619bc31d620596afcaad98c8e52a58095c42de07d  sst2.jsonl.xz
86acf84e766ddaa2f3241ccffaa313027643c3797d0a8cb733c241ac6a66aa13  qm9.csv.xz
8c06a76f0c6487d29ab0f903e6a7a7139f189ab3c1178f159c8be8964602f189  esol.csv
2bfd85e03c790f40ca511efbde8d6095d2e40bf5a70450e29450cd68aecbef01  freesolv.csv
53f4d75dad1ff26224df1fe0523de4af1ecf867855f18c1794a1a20de44d42da  lipophilicity.csv
8c06a76f0c6487d29ab0f903e6a7a7139f189ab3c1178f159c8be8964602f189  delaney-processed.csv
6d958be074577803d12ecdefd02955f39262c83c16fe9348329d7fe0b5c001ce  cifar-10-python.tar.gz
c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd  cifar-10-binary.tar.gz
85cd44d02ba6437773c5bbd22e183051d648de2e7d6b014e1ef29b855ba677a7  cifar-100-python.tar.gz
58a81ae192c23a4be8b1804d68e518ed807d710a4eb253b1f2a199162a40d8ec  cifar-100-binary.tar.gz
440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609  train-images-idx3-ubyte.gz
3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c  train-labels-idx1-ubyte.gz
8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6  t10k-images-idx3-ubyte.gz
f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6  t10k-labels-idx1-ubyte.gz
"""
SHA256 = {name: digest for digest, name in map(str.split, SUMS.strip().splitlines())}


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
        raise ValueError(
            f"`name` must be one of {', '.join(known)}, or have the files `train` and `test`. "
            f"Received: {name=}, {train=}, {test=}"
        )
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
