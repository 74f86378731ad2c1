"""Read the molecules and the split of PCQM4M from the Open Graph Benchmark."""

from typing import Any

import numpy as np

from keras_permix._typing import StrPath
from keras_permix.data.files import find_layout, read_rows
from keras_permix.utils.checks import import_extra
from keras_permix.utils.tables import Rows

# Set -> folder of the unpacked archive; v1 is that of the KDD Cup.
FOLDERS = {"pcqm4m": "pcqm4m_kddcup2021", "pcqm4m_v2": "pcqm4m-v2"}
CORES = ("core", "_core")  # of NumPy before and since 2.0
TABLE, SPLIT = "raw/data.csv.gz", "split_dict.pt"


def read_pcqm4m(name: str, data_dir: StrPath | None = None) -> tuple[Rows, Rows]:
    """Read the training and validation rows of a set; the other targets are not public.

    Each row has "smiles" and "homolumogap", in eV, as text.
    """
    names = tuple(f"{FOLDERS[name]}/{file}" for file in (TABLE, SPLIT))
    folder, _ = find_layout(data_dir, [names])
    table, split = (folder / file for file in names)
    rows = read_rows(table)
    torch = import_extra("torch", "torch", f"Reading {split}")
    reconstruct = np.zeros(0).__reduce__()[0]
    allowed: list[Any] = [np.ndarray, np.dtype, np.dtypes.Int64DType, np.dtypes.Int32DType]
    allowed += [(reconstruct, f"numpy.{name}.multiarray._reconstruct") for name in CORES]
    with torch.serialization.safe_globals(allowed):
        indices = torch.load(split, weights_only=True)
    train, valid = ([rows[i] for i in np.ravel(indices[part])] for part in ("train", "valid"))
    return train, valid
