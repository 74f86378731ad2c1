"""Read the molecules and the split of PCQM4M from the Open Graph Benchmark."""

from pathlib import Path
from typing import Any

import numpy as np

from keras_permix._typing import StrPath
from keras_permix.data.files import find_layout, read_rows
from keras_permix.utils.checks import import_extra

# Set -> folder of the unpacked archive; v1 is that of the KDD Cup.
FOLDERS = {"pcqm4m": "pcqm4m_kddcup2021", "pcqm4m_v2": "pcqm4m-v2"}
CORES = ("core", "_core")  # of NumPy before and since 2.0
TABLE, SPLIT = "raw/data.csv.gz", "split_dict.pt"

Rows = list[dict[str, Any]]


def read_pcqm4m(name: str, data_dir: StrPath | None = None) -> tuple[Rows, Rows]:
    """Read the training and validation rows of a set; the other targets are not public.

    Each row has "smiles" and "homolumogap", in eV, as text.
    """
    names = [f"{FOLDERS[name]}/{file}" for file in (TABLE, SPLIT)]
    folder, _ = find_layout(data_dir, [tuple(names)])
    table, split = (folder / file for file in names)
    rows = read_rows(table)
    train, valid = _split(split, len(rows))
    return [rows[i] for i in train], [rows[i] for i in valid]


def _split(path: Path, count: int) -> list[list[int]]:
    """Read the indices of the training and the validation rows, a file of `torch.save`."""
    torch = import_extra("torch", "torch", f"Reading {path}")
    reconstruct = np.zeros(0).__reduce__()[0]
    allowed: list[Any] = [np.ndarray, np.dtype, np.dtypes.Int64DType, np.dtypes.Int32DType]
    allowed += [(reconstruct, f"numpy.{name}.multiarray._reconstruct") for name in CORES]
    try:
        with torch.serialization.safe_globals(allowed):
            indices = torch.load(path, weights_only=True)
        parts = [np.asarray(indices[part]).ravel() for part in ("train", "valid")]
        for part in parts:
            is_integer = part.dtype.kind in "iu" and part.size
            if not is_integer or not 0 <= part.min() <= part.max() < count:
                raise ValueError(f"indices other than those of {count} molecules")
        return [part.tolist() for part in parts]
    except Exception as error:  # PyTorch raises many kinds of errors for damaged files.
        raise ValueError(
            f"{SPLIT} must contain arrays `train` and `valid` of indices in {TABLE}. "
            f"Received: {path} ({type(error).__name__}: {str(error)[:200]})"
        ) from error
