"""Test PCQM4M files in the format of OGB, with molecules of QM9."""

import csv
import gzip
import os
import pickle
import sys
from pathlib import Path

import numpy as np
import pytest

from keras_permix.data import from_smiles, load_graphs
from tests.harness import assert_close

pytest.importorskip("rdkit", reason="rdkit is not installed")
torch = pytest.importorskip("torch", reason="OGB writes its split with PyTorch")

SAMPLE = Path(__file__).parent / "qm9_sample.csv"
ROWS = list(csv.DictReader(SAMPLE.read_text(encoding="utf-8").splitlines()))[:12]
SMILES = [row["smiles"] for row in ROWS]
GAPS = np.linspace(2, 8, 12)
SPLIT = {
    "train": np.array([7, 1, 4, 0, 9]),
    "valid": np.array([3, 11]),
    "test-dev": np.array([2, 5, 6]),
    "test-challenge": np.array([8, 10]),
}


def write(folder, split=SPLIT, gaps=GAPS):
    """Write the files of PCQM4Mv2. As in the real set, the test parts have no targets."""
    raw = folder / "pcqm4m-v2/raw"
    raw.mkdir(parents=True)
    known = {*SPLIT["train"], *SPLIT["valid"]}
    lines = [f"{i},{SMILES[i]},{gaps[i] if i in known else ''}\n" for i in range(12)]
    text = "idx,smiles,homolumogap\n" + "".join(lines)
    (raw / "data.csv.gz").write_bytes(gzip.compress(text.encode()))
    torch.save(split, folder / "pcqm4m-v2/split_dict.pt")
    return folder


def test_training_and_validation_parts(tmp_path):
    data = load_graphs("pcqm4m_v2", write(tmp_path))
    assert data.labels == ("gap",)
    for (source, _), part in ((data.train, "train"), (data.test, "valid")):
        inputs, gaps = source.read(range(len(source)))
        assert_close(gaps[:, 0], GAPS[SPLIT[part]])
        expected = from_smiles([SMILES[i] for i in SPLIT[part]], nodes=inputs["x"].shape[1])
        np.testing.assert_array_equal(inputs["x"], expected["x"])


def test_missing_files_raise(monkeypatch):
    monkeypatch.delenv("KERAS_PERMIX_DATA", raising=False)
    with pytest.raises(FileNotFoundError, match="pcqm4m_kddcup2021/raw/data.csv.gz"):
        load_graphs("pcqm4m")


class Malicious:
    def __init__(self, path):
        self.path = str(path)

    def __reduce__(self):
        return os.mkdir, (self.path,)


def test_malicious_split_is_not_executed(tmp_path):
    folder = write(tmp_path, {**SPLIT, "more": Malicious(tmp_path / "made")})
    with pytest.raises(pickle.UnpicklingError):
        load_graphs("pcqm4m_v2", folder)
    assert not (tmp_path / "made").exists()


def test_missing_torch_raises(tmp_path, monkeypatch):
    folder = write(tmp_path)
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(ImportError, match="split_dict.pt requires torch"):
        load_graphs("pcqm4m_v2", folder)
