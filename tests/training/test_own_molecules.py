"""A file of molecules and a number of each: a preset of another number learns it in its scale."""

import re
from pathlib import Path

import numpy as np
import pytest

from keras_permix.cli import main
from keras_permix.data import Dataset, GraphSource
from keras_permix.data.graphs.flat import flat_molecules
from keras_permix.tasks import task_of
from keras_permix.training import train
from keras_permix.zoo import SliceGraphormer
from tests.zoo.models import weights

pytest.importorskip("rdkit")
pytestmark = pytest.mark.once

SMILES = ("C", "CC", "CCO", "CCN", "c1ccccc1", "CC(=O)O", "CCCC", "OCCO")
TARGETS = np.random.default_rng(0).normal([-3, 0, 50], [1, 2, 30], (len(SMILES), 3))
LABELS = ("logS", "logP", "kelvin")
DECIMALS = (3, 3, 2)  # of the fourth digit of each standard deviation
MEAN = [round(float(n), places) for n, places in zip(TARGETS.mean(0), DECIMALS, strict=True)]
STD = [float(f"{number:.4g}") for number in TARGETS.astype("float32").std(0)]
RECIPE = """
init = "slicegraphormer/test"
freeze = ["block_*"]
batch_size = 4
epochs = 1

[data]
name = "mine"
train = "some.csv"
test = "some.csv"
labels = ["logS", "logP", "kelvin"]
"""


@pytest.fixture
def recipe(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rows = [",".join([text, *map(str, row)]) for text, row in zip(SMILES, TARGETS, strict=True)]
    (tmp_path / "some.csv").write_text("\n".join([",".join(["smiles", *LABELS]), *rows]))
    (tmp_path / "mine.toml").write_text(RECIPE)
    return "mine.toml"


def test_a_preset_takes_the_scale_of_other_targets(recipe):
    done = train(recipe, optimizer={"learning_rate": 0.0}, out="run", verbose=0)
    config = SliceGraphormer.from_preset("run/preset").get_config()
    assert (config["mean"], config["std"]) == (MEAN, STD)
    assert config["domain"] == {"elements": [6, 7, 8], "max_atoms": 6}
    preset = SliceGraphormer.from_preset("test")
    for name, array in weights(preset).items():
        np.testing.assert_array_equal(weights(done.model)[name], array)
    frozen = {layer.name for layer in done.model.layers if not layer.trainable}
    assert {name for name in frozen if name.startswith("block_")} == {
        layer.name for layer in preset.layers if layer.name.startswith("block_")
    }
    output = (preset.predict(list(SMILES), verbose=0) - preset.get_config()["mean"]) / (
        preset.get_config()["std"]
    )
    expected = np.array(MEAN) + np.array(STD) * output
    np.testing.assert_allclose(
        done.model.predict(list(SMILES), verbose=0), expected, rtol=1e-4, atol=1e-5
    )


@pytest.mark.parametrize("said", [{"mean": 1.5, "std": 2.0}, {"mean": 1.5}])
def test_what_the_recipe_says_stays(recipe, said):
    train(recipe, model=said, out="run", verbose=0)
    config = SliceGraphormer.from_preset("run/preset").get_config()
    assert config["mean"] == 1.5
    assert config["std"] == (2.0 if len(said) == 2 else STD)


def test_targets_of_the_preset_s_own_keep_its_scale(recipe, tmp_path):
    train(recipe, out="first", model={"mean": 1.5, "std": 2.0}, verbose=0)
    train(recipe, out="second", init="first/preset", verbose=0)
    config = SliceGraphormer.from_preset("second/preset").get_config()
    assert (config["mean"], config["std"]) == (1.5, 2.0)


def test_molecules_of_the_preset_s_own_stay_known(recipe, tmp_path):
    model = SliceGraphormer.from_preset("test", domain=dict(elements=[9], max_atoms=99))
    model.save_to_preset("known")
    train(recipe, out="run", init="known", verbose=0)
    config = SliceGraphormer.from_preset("run/preset").get_config()
    assert config["domain"] == {"elements": [6, 7, 8, 9], "max_atoms": 99}


@pytest.mark.parametrize(
    ("labels", "target_units"),
    [(("gap", "dipole"), ["eV", "D"]), (("gap",), "eV"), (("other",), "")],
)
def test_known_targets_have_units(labels, target_units):
    task = task_of(SliceGraphormer.from_preset("test", targets=len(labels)))
    source = GraphSource(flat_molecules("qm9", SMILES), TARGETS[:, : len(labels)])
    scale = task.scale(Dataset("qm9", (source, None), (source, None), labels))
    assert scale["target_units"] == target_units


def test_targets_far_from_zero_begin_at_their_mean():
    task = task_of(SliceGraphormer.from_preset("test"))
    targets = np.random.default_rng(0).normal([26534.7, -3e-6, 7], [0.5, 1e-7, 0], (64, 3))
    source = GraphSource(flat_molecules("mine", ["C"] * 64), targets)
    scale = task.scale(Dataset("mine", (source, None), (source, None), LABELS))
    z = (targets.mean(0) - scale["mean"]) / scale["std"]
    assert np.abs(z[:2]).max() < 0.01 and (scale["mean"][2], scale["std"][2]) == (7, 1)
    assert scale["std"][:2] == pytest.approx(targets.std(0)[:2], rel=1e-3)


def test_a_preset_is_measured_on_another_file(recipe, capsys):
    train(recipe, optimizer={"learning_rate": 0.0}, out="run", verbose=0)
    lines = Path("some.csv").read_text().splitlines()
    Path("other.csv").write_text("\n".join(lines[:4]))
    capsys.readouterr()
    assert main(["evaluate", "run/preset", "--data-path", "other.csv"]) == 0
    said = capsys.readouterr().out
    answers = SliceGraphormer.from_preset("run/preset").predict(list(SMILES[:3]), verbose=0)
    measured = float(re.search(r"other/test/mae: (\S+)", said)[1])
    assert measured == pytest.approx(np.abs(answers - TARGETS[:3]).mean(), rel=1e-3)
    assert "mae_of_mean" not in said  # of training targets, which there are none of
