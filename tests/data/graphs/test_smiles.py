"""Test molecules in flat arrays, and the cache of large sets."""

import numpy as np
import pytest

from keras_permix.data import GraphSource, cached, load_graphs
from keras_permix.data.graphs import smiles
from keras_permix.data.graphs.preprocess import batch_graphs
from keras_permix.data.graphs.smiles import cached_molecules, parse_smiles

pytest.importorskip("rdkit", reason="rdkit is not installed")

SMILES = ["CCO", "C", "c1ccccc1", "C#N"]


@pytest.fixture
def parsed(tmp_path, monkeypatch):
    """Record the sizes of parsed sets, and cache sets of three molecules or more."""
    sizes = []

    def cached_arrays(name, content, make, count):
        return cached.cached_arrays(name, content, lambda: (sizes.append(count), make())[1], count)

    monkeypatch.setenv("KERAS_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(cached, "MANY", 3)
    monkeypatch.setattr(smiles, "cached_arrays", cached_arrays)
    return sizes


def check(graphs, molecules):
    assert len(graphs) == len(molecules)
    for graph, molecule in zip(graphs, molecules, strict=True):
        for array, wanted in zip(graph, parse_smiles([molecule])[0], strict=True):
            np.testing.assert_array_equal(array, wanted)
            assert array.dtype == wanted.dtype


def test_graphs_can_be_indexed_and_sliced(parsed):
    graphs = cached_molecules("some", SMILES)
    check(graphs, SMILES)
    source = GraphSource(graphs, np.arange(4.0)[:, None])[np.array([3, 0, 2])][1:]
    assert source.targets.tolist() == [[0], [2]]
    np.testing.assert_array_equal(
        source.read([0, 1])[0]["x"], batch_graphs([graphs[0], graphs[2]])["x"]
    )
    assert graphs[-1][0].shape == (2, 9)


def test_large_sets_are_parsed_once(parsed, tmp_path, monkeypatch):
    for _ in range(2):
        check(cached_molecules("some", iter(SMILES)), SMILES)
    assert parsed == [4]
    check(cached_molecules("some", SMILES[::-1]), SMILES[::-1])
    monkeypatch.setattr(smiles, "FEATURE_VERSION", "another")
    cached_molecules("some", SMILES)
    assert parsed == [4, 4, 4]


def test_other_rdkit_version_parses_again(parsed, monkeypatch):
    cached_molecules("some", SMILES)
    monkeypatch.setattr("rdkit.rdBase.rdkitVersion", "another")
    cached_molecules("some", SMILES)
    assert parsed == [4, 4]


@pytest.mark.parametrize("count", [0, 3, 4])
def test_parsing_in_chunks_gives_the_same_arrays(monkeypatch, count):
    whole = vars(parse_smiles(SMILES[:count]))
    monkeypatch.setattr(smiles, "AT_ONCE", 2)
    for name, array in vars(parse_smiles(iter(SMILES[:count]))).items():
        assert np.array_equal(array, whole[name]) and array.dtype == whole[name].dtype
    with pytest.raises(ValueError, match=r"smiles\[3\]='C1'"):
        parse_smiles([*SMILES[:3], "C1"])


def test_small_sets_are_not_cached(parsed, tmp_path):
    for _ in range(2):
        check(cached_molecules("some", SMILES[:2]), SMILES[:2])
    assert len(parsed) == 2 and not (tmp_path / "home").exists()


def test_cached_batches_match_parsed_molecules(parsed, tmp_path):
    lines = "\n".join(f"{smiles},{number}" for number, smiles in enumerate(SMILES))
    (tmp_path / "a.csv").write_text("smiles,y\n" + lines)
    batches = [
        load_graphs("mine", tmp_path, train="a.csv", test="a.csv").train[0].read([2, 0])
        for _ in range(2)
    ]
    assert len(parsed) == 1
    for name, array in batches[0][0].items():
        np.testing.assert_array_equal(batches[1][0][name], array)
    assert batches[1][1].tolist() == [[2], [0]] and (batches[0][0]["x"][0] > 0).all(1).sum() == 6
