"""Test graphs of molecules with the features of the Open Graph Benchmark, and molecule data sets.

`qm9_sample.csv` contains 42 molecules of QM9 (Ramakrishnan et al., 2014, open data on figshare),
with the HOMO-LUMO gap in hartree.
"""

import csv
import hashlib
import os
import sys
from pathlib import Path

import numpy as np
import pytest

from keras_permix.data import Pipeline, from_smiles, load_graphs, pad_graphs
from keras_permix.data.files import SHA256
from keras_permix.data.graphs.smiles import parse_smiles
from tests.oracle import graph as oracle

pytest.importorskip("rdkit", reason="rdkit is not installed")

SAMPLE = Path(__file__).parent / "qm9_sample.csv"
ROWS = list(csv.DictReader(SAMPLE.read_text(encoding="utf-8").splitlines()))
SMILES = [row["smiles"] for row in ROWS]
# SMILES and index of an atom -> its nine features as defined in `ogb/utils/features.py`.
ATOMS = {
    # The example in that file; chirality refers to the canonical order of the neighbors.
    ("Cl[C@H](/C=C/C)Br", 1): [5, 1, 4, 5, 1, 0, 2, 0, 0],
    ("C", 0): [5, 0, 4, 5, 4, 0, 2, 0, 0],
    ("CCO", 2): [7, 0, 2, 5, 1, 0, 2, 0, 0],
    ("c1ccccc1", 3): [5, 0, 3, 5, 1, 0, 1, 1, 1],
    ("C1=CC=CC=C1", 3): [5, 0, 3, 5, 1, 0, 1, 1, 1],
    ("N#CC[O-]", 0): [6, 0, 1, 5, 0, 0, 0, 0, 0],
    ("N#CC[O-]", 3): [7, 0, 1, 4, 0, 0, 2, 0, 0],
    ("[CH3]", 0): [5, 0, 3, 5, 3, 1, 2, 0, 0],
    ("FS(F)(F)(F)(F)F", 1): [15, 0, 6, 5, 0, 0, 4, 0, 0],
    # Values that are not in the lists of that file get the last index.
    ("*C", 0): [118, 0, 1, 5, 0, 0, 5, 0, 0],
    ("[H][H]", 0): [0, 0, 1, 5, 0, 0, 5, 0, 0],
    ("[Fe+6]", 0): [25, 0, 0, 11, 0, 0, 5, 0, 0],
    ("F[Pt@SP1](Cl)(Br)I", 1): [77, 4, 4, 5, 0, 0, 5, 0, 0],
}
BONDS = {
    ("Cl[C@H](/C=C/C)Br", 2): [1, 2, 0],  # the example in that file
    ("C/C=C\\C", 1): [1, 1, 0],
    ("CCO", 0): [0, 0, 0],
    ("CC#N", 1): [2, 0, 0],
    ("C=CC=C", 1): [0, 0, 1],
    ("c1ccccc1", 0): [3, 0, 1],
    ("[NH3]->[Fe]", 0): [4, 0, 0],
}


@pytest.mark.parametrize(("molecule", "atom"), ATOMS)
def test_atom_features(molecule, atom):
    ((atoms, _),) = parse_smiles([molecule])
    assert ATOMS[molecule, atom] in atoms.tolist()


@pytest.mark.parametrize(("molecule", "bond"), BONDS)
def test_bond_features(molecule, bond):
    ((_, bonds),) = parse_smiles([molecule])
    assert BONDS[molecule, bond] in bonds[:, 2:].tolist()


def test_smiles_match_preprocessed_graphs():
    """Cover single atoms and disconnected molecules, too."""
    molecules = [*SMILES, "C1CC2CCC1CC2", "[Na+].CC[O-]", "C" * 24]
    graphs = parse_smiles(molecules)
    expected = pad_graphs([oracle.preprocess(*graph) for graph in graphs])
    batch = from_smiles(molecules)
    assert batch.keys() == expected.keys()
    for name, array in batch.items():
        np.testing.assert_array_equal(array, expected[name], err_msg=name)
    assert batch["x"].shape == (45, 24, 9) and batch["edge_input"].shape[3:] == (20, 3)
    padded = from_smiles(("CCO", "C"), nodes=5, hops=1, max_distance=2)
    assert padded["edge_input"].shape == (2, 5, 5, 1, 3)
    unseen = padded["attn_bias"][0, 1:4, 1:4] < 0
    assert np.argwhere(unseen).tolist() == [[0, 1], [1, 0]]


SPELLED = (
    *SMILES, "C[C@H](N)C(=O)O", "C[C@@H](N)C(=O)O", "F/C=C/F", "F/C=C\\F", "OC1C(O)C(O)C1O",
    "C1CC[C@H](F)[C@@H](Cl)C1", "c1ccc2[nH]ccc2c1", "C[C@H]1CC[C@@H](C)CC1", "C12C3C4C1C5C2C3C45",
    "C[S@](=O)c1ccccc1", "[Na+].CC[O-]", "[2H]OC", "F[P-](F)(F)(F)(F)F",
)  # fmt: skip


@pytest.mark.parametrize("smiles", SPELLED)
def test_equivalent_smiles_give_the_same_arrays(smiles):
    """Otherwise, models that depend on node positions would predict different values."""
    from rdkit import Chem

    molecule = Chem.MolFromSmiles(smiles)
    spellings = {Chem.MolToSmiles(molecule, doRandom=True, canonical=False) for _ in range(9)}
    kekule = {Chem.MolToSmiles(molecule, kekuleSmiles=True)}
    for name, arrays in from_smiles([smiles, *sorted(spellings | kekule)]).items():
        np.testing.assert_array_equal(arrays, arrays[:1].repeat(len(arrays), 0), err_msg=name)


def test_isomers_differ_but_map_numbers_are_ignored():
    for isomers in (("F/C=C/F", "F/C=C\\F"), ("C[C@H](N)C(=O)O", "C[C@@H](N)C(=O)O")):
        first, second = parse_smiles(isomers)
        assert any((a != b).any() for a, b in zip(first, second, strict=True))
    mapped, plain = parse_smiles(["[CH3:2][OH:1]", "CO"])
    np.testing.assert_array_equal(mapped[0], plain[0])


@pytest.mark.parametrize(
    ("smiles", "error", "message"),
    [
        (["CCO", "C1CC("], ValueError, r"must be valid SMILES\. Received: smiles\[1\]="),
        (["C(C)(C)(C)(C)C"], ValueError, r"Explicit valence for atom # 0 C, 5.* smiles\[0\]="),
        (["C", "C", ""], ValueError, r"smiles\[2\]=''"),
        ("CCO", TypeError, "must be a list of strings. Received: smiles='CCO'"),
        ([], ValueError, r"must contain a molecule. Received: smiles=\[\]"),
    ],
)
def test_invalid_smiles_raise(smiles, error, message, capfd):
    with pytest.raises(error, match=message):
        from_smiles(smiles)
    assert capfd.readouterr() == ("", "")


def test_molecule_larger_than_max_atoms_raises():
    with pytest.raises(ValueError, match=r"at most 512 atoms.*`max_atoms`.*\[1\] with 513 at"):
        from_smiles(["C", "C" * 513])
    assert from_smiles(["C" * 6], max_atoms=6)["x"].shape[1] == 6
    with pytest.raises(ValueError, match="at most 5 atoms"):
        from_smiles(["C" * 6], max_atoms=5)


def test_too_few_nodes_raises():
    with pytest.raises(ValueError, match="`nodes` .* of at least 3. Received: nodes=2"):
        from_smiles(["CCO"], nodes=2)


def test_missing_rdkit_raises(monkeypatch):
    monkeypatch.setitem(sys.modules, "rdkit", None)
    with pytest.raises(ImportError, match=r'pip install "keras_permix\[graph\]"'):
        from_smiles(["CCO"])


def test_load_molecules_from_csv():
    files = dict(train=SAMPLE.name, test=SAMPLE.name, labels=("HOMO_LUMO_gap_au",))
    data = load_graphs("sample", SAMPLE.parent, **files, hops=2)
    inputs, targets = Pipeline(*data.train, batch_size=42)[0]
    wanted = from_smiles(SMILES, hops=2)
    for name, array in inputs.items():
        np.testing.assert_array_equal(array, wanted[name])
    gaps = [float(row["HOMO_LUMO_gap_au"]) for row in ROWS]
    np.testing.assert_array_equal(targets, np.array(gaps, "float32")[:, None])


@pytest.mark.parametrize("number", ["nan", "inf", "abc", ""])
def test_invalid_target_raises(number, tmp_path):
    (tmp_path / "some.csv").write_text(f"smiles,y\nCCO,1.5\nCCC,{number}\n")
    with pytest.raises(ValueError, match="Every row must have a number in the column 'y'.*'CCC'"):
        load_graphs("mine", tmp_path, train="some.csv", test="some.csv")


@pytest.fixture
def esol(tmp_path, monkeypatch):
    """Write a miniature of ESOL. Its SMILES end with a space, as some in the real set do."""
    lines = [f"{row['smiles']} ,{number}" for number, row in enumerate(ROWS)]
    path = tmp_path / "esol.csv"
    path.write_text("\n".join(["smiles,measured log solubility in mols per litre", *lines]))
    monkeypatch.setitem(SHA256, path.name, hashlib.sha256(path.read_bytes()).hexdigest())
    return tmp_path


def test_known_set_is_split_by_seed(esol):
    data = load_graphs("esol", esol)
    (train, _), (test, _) = data.train, data.test
    assert (len(train), len(test), data.labels) == (38, 4, ("log_solubility",))
    order = np.random.default_rng(0).permutation(42)
    assert [*train.targets[:, 0], *test.targets[:, 0]] == order.tolist()
    graphs = parse_smiles([SMILES[number] for number in order])
    read = [source.graphs[i] for source in (train, test) for i in source.chosen]
    for (atoms, bonds), (right, joined) in zip(read, graphs, strict=True):
        np.testing.assert_array_equal(atoms, right)
        np.testing.assert_array_equal(bonds, joined)
    other = load_graphs("esol", esol, split_seed=1).test[0].targets
    assert other.tolist() != test.targets.tolist()


def test_esol_with_original_file_name(esol, monkeypatch):
    targets = load_graphs("esol", esol).test[0].targets
    file = (esol / "esol.csv").rename(esol / "delaney-processed.csv")
    with pytest.raises(ValueError, match="delaney-processed.csv"):  # has the wrong checksum
        load_graphs("esol", esol)
    monkeypatch.setitem(SHA256, file.name, hashlib.sha256(file.read_bytes()).hexdigest())
    np.testing.assert_array_equal(load_graphs("esol", esol).test[0].targets, targets)


@pytest.mark.parametrize(
    ("name", "options", "rule"),
    [
        ("esol", dict(labels=("gap",)), "a number in the column 'gap'. For other .* set `labels`"),
        (
            "zinc",
            {},
            "`name` must be one of esol, freesolv, lipophilicity, qm9, or",
        ),
    ],
)
def test_invalid_names_and_labels_raise(name, options, rule, esol):
    with pytest.raises(ValueError, match=rule):
        load_graphs(name, esol, **options)


@pytest.mark.parametrize(
    ("name", "sizes", "mean"),
    [
        ("esol", (1015, 113), -3.0501),
        ("freesolv", (578, 64), -3.8030),
        ("lipophilicity", (3780, 420), 2.1863),
    ],
)
def test_real_sets(name, sizes, mean):
    """Compare the sizes with those of MoleculeNet, and the means with those of the files."""
    folder = Path(os.environ.get("KERAS_PERMIX_DATA", "nowhere"))
    if not (folder / f"{name}.csv").is_file():
        pytest.skip(f"KERAS_PERMIX_DATA holds no {name}")
    data = load_graphs(name)
    targets = np.concatenate([data.train[0].targets, data.test[0].targets])
    assert (len(data.train[0]), len(data.test[0])) == sizes
    assert targets.mean() == pytest.approx(mean, abs=1e-4)
