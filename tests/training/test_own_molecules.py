"""Test fine-tuning on molecule files: target scales, units and domains."""

import re
from pathlib import Path

import numpy as np
import pytest

from keras_permix.cli import main
from keras_permix.data import Dataset, GraphSource
from keras_permix.data.graphs.smiles import cached_molecules
from keras_permix.tasks import task_of
from keras_permix.training import train
from keras_permix.zoo import SliceGraphormer
from tests.harness import assert_close
from tests.zoo.models import weights

pytest.importorskip("rdkit")
pytestmark = pytest.mark.once

SMILES = ("C", "CC", "CCO", "CCN", "c1ccccc1", "CC(=O)O", "CCCC", "OCCO")
TARGETS = np.random.default_rng(0).normal([-3, 0, 50], [1, 2, 30], (len(SMILES), 3))
LABELS = ("logS", "logP", "kelvin")
DECIMALS = (3, 3, 2)  # of the means, given by four significant digits of each deviation
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


def test_preset_adopts_scale_of_new_targets(recipe):
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
    assert_close(done.model.predict(list(SMILES), verbose=0), expected)


@pytest.mark.parametrize("scale", [{"mean": 1.5, "std": 2.0}, {"mean": 1.5}])
def test_scale_of_recipe_is_kept(recipe, scale):
    train(recipe, model=scale, out="run", verbose=0)
    config = SliceGraphormer.from_preset("run/preset").get_config()
    assert config["mean"] == 1.5
    assert config["std"] == (2.0 if len(scale) == 2 else STD)


def test_same_targets_keep_scale(recipe, tmp_path):
    train(recipe, out="first", model={"mean": 1.5, "std": 2.0}, verbose=0)
    train(recipe, out="second", init="first/preset", verbose=0)
    config = SliceGraphormer.from_preset("second/preset").get_config()
    assert (config["mean"], config["std"]) == (1.5, 2.0)


def test_domain_includes_molecules_of_preset(recipe, tmp_path):
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
    source = GraphSource(cached_molecules("qm9", SMILES), TARGETS[:, : len(labels)])
    scale = task.scale(Dataset("qm9", (source, None), (source, None), labels))
    assert scale["target_units"] == target_units


def test_scale_of_targets_far_from_zero():
    task = task_of(SliceGraphormer.from_preset("test"))
    targets = np.random.default_rng(0).normal([26534.7, -3e-6, 7], [0.5, 1e-7, 0], (64, 3))
    source = GraphSource(cached_molecules("mine", ["C"] * 64), targets)
    scale = task.scale(Dataset("mine", (source, None), (source, None), LABELS))
    z = (targets.mean(0) - scale["mean"]) / scale["std"]
    assert np.abs(z[:2]).max() < 0.01 and (scale["mean"][2], scale["std"][2]) == (7, 1)
    assert scale["std"][:2] == pytest.approx(targets.std(0)[:2], rel=1e-3)


def test_evaluate_preset_on_other_file(recipe, capsys):
    train(recipe, optimizer={"learning_rate": 0.0}, out="run", verbose=0)
    lines = Path("some.csv").read_text().splitlines()
    Path("other.csv").write_text("\n".join(lines[:4]))
    capsys.readouterr()
    assert main(["evaluate", "run/preset", "--data-path", "other.csv"]) == 0
    output = capsys.readouterr().out
    predictions = SliceGraphormer.from_preset("run/preset").predict(list(SMILES[:3]), verbose=0)
    measured = float(re.search(r"other/test/mae: (\S+)", output)[1])
    assert measured == pytest.approx(np.abs(predictions - TARGETS[:3]).mean(), rel=1e-3)
    assert "mae_of_mean" not in output  # requires training targets
