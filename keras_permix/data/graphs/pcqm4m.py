"""PCQM4M, as the Open Graph Benchmark hands it out: its table of molecules and its split."""

import zipfile
import zlib
from pathlib import Path
from typing import Any

from keras_permix._typing import StrPath
from keras_permix.data.files import need_folder, read_file
from keras_permix.data.lines import read_rows
from keras_permix.data.unpickle import unpickle_arrays

# Set -> the folder that its archive becomes.
FOLDERS = {"pcqm4m": "pcqm4m_kddcup2021", "pcqm4m_v2": "pcqm4m-v2"}
INDEX, MORE = 64, 1 << 16  # bytes of an index, and of the rest, that a split has at the most
TABLE, SPLIT = "raw/data.csv.gz", "split_dict.pt"

Rows = list[dict[str, Any]]


def read_pcqm4m(name: str, data_dir: StrPath | None = None) -> tuple[Rows, Rows]:
    """The rows for training and for validation; the answers to the others are not given away.

    Args:
        name: "pcqm4m", that of the KDD Cup 2021, or "pcqm4m_v2".
        data_dir: Folder with the folder of the set. `None`: that of `KERAS_PERMIX_DATA`.

    Returns:
        Two lists of dicts with "smiles" and "homolumogap", in eV, as text.

    Raises:
        ValueError: for a damaged file, or a split that is none of these molecules.
        FileNotFoundError: for a missing file.

    Source: Hu et al., "OGB-LSC: A Large-Scale Challenge for Machine Learning on Graphs", 2021.
    """
    names = [f"{FOLDERS[name]}/{file}" for file in (TABLE, SPLIT)]
    folder = need_folder(data_dir, names)
    table, split = (folder / file for file in names)
    rows = read_rows(table)
    train, valid = _split(split, len(rows))
    return [rows[i] for i in train], [rows[i] for i in valid]


def _split(path: Path, count: int) -> list[list[int]]:
    """Indices of the training and the validation rows, from what `torch.save` wrote."""
    read_file(path)  # which says what is wrong with a path
    try:
        with zipfile.ZipFile(path) as archive:
            (pickle,) = (item for item in archive.infolist() if item.filename.endswith("/data.pkl"))
            if pickle.file_size > INDEX * count + MORE:
                raise ValueError(f"{pickle.file_size} bytes for {count} molecules")
            indices = unpickle_arrays(archive.read(pickle))
        parts = [indices[part].ravel() for part in ("train", "valid")]
        for part in parts:
            if (
                part.dtype.kind not in "iu"
                or not part.size
                or not 0 <= part.min() <= part.max() < count
            ):
                raise ValueError(f"indices other than those of {count} molecules")
        return [part.tolist() for part in parts]
    # Of the zip file: that it is damaged, encrypted, or packed in another way.
    except (
        zipfile.BadZipFile, zlib.error, RuntimeError, KeyError, AttributeError, ValueError
    ) as error:  # fmt: skip
        raise ValueError(
            f"{SPLIT} must hold arrays `train` and `valid` of indices in {TABLE}. "
            f"Received: {path} ({type(error).__name__}: {error})"
        ) from error
