"""Test the conversion of the tables of qm9pack to the QM9 data set."""

import lzma
import zipfile

import pytest

from keras_permix.data import files, load_graphs
from keras_permix.data.graphs.sets import HARTREE
from tests.harness import load_module

make_qm9 = load_module("tools/make_qm9.py")

NUMBERS = "157.7118,157.70997,157.70699,0.,13.21,-0.3877,0.1171,{gap},35.3,0.04,-4,-4,-4,-4,6.4"


@pytest.fixture
def wheel(tmp_path):
    """Write three tables with one molecule each and some unused columns."""
    path = tmp_path / "qm9pack-1.0.3-py3-none-any.whl"
    names = [*make_qm9.COLUMNS]
    header = ",".join(["XYZ_file", *names[:3], "XYZ_Ang", *names[3:]])
    with zipfile.ZipFile(path, "w") as archive:
        for number, smiles in enumerate(("C", "CCO", "C#N")):
            numbers = NUMBERS.format(gap=f"0.{number + 3}")
            row = f'"{number}.xyz",{number + 1},"{smiles}",5,"[[1.0,2.0],[3.0,4.0]]",{numbers}'
            archive.writestr(make_qm9.TABLES[number], f"{header}\n{row}\n")
    return path


def test_converted_table_loads(wheel, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["make_qm9.py", str(wheel), "--out", str(tmp_path)])
    with pytest.raises(ValueError, match=r"qm9.csv.xz` must have the SHA-256 86acf84e"):
        make_qm9.main()  # three molecules give another checksum
    assert [path.name for path in tmp_path.iterdir()] == [wheel.name]
    monkeypatch.delitem(files.SHA256, "qm9.csv.xz")
    make_qm9.main()
    header, *rows = lzma.open(tmp_path / "qm9.csv.xz", "rt").read().splitlines()
    assert header.startswith("index,smiles,n_atoms,RotA_GHz,") and header.count(",") == 17
    assert rows[1] == f"2,CCO,5,{NUMBERS.format(gap='0.4')}"
    assert "qm9.csv.xz: 3 molecules" in capsys.readouterr().out
    pytest.importorskip("rdkit")
    monkeypatch.setattr("keras_permix.data.graphs.sets.TEST_FRACTION", 0.4)
    data = load_graphs("qm9", tmp_path)
    gaps = [*data.train[0].targets[:, 0], *data.test[0].targets[:, 0]]
    assert sorted(gaps) == pytest.approx([0.3 * HARTREE, 0.4 * HARTREE, 0.5 * HARTREE])
