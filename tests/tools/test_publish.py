"""Test publishing: all files of a run are copied, and an invalid run changes nothing."""

import json
import shutil

import pytest

from keras_permix.training.run import KEYS
from tests.harness import load_module
from tests.zoo.models import tiny

tool = load_module("tools/publish.py")

RECORD = {
    "name": "cspvit/mine",
    "recipe": "zoo/cspvit/mine/recipe.toml",
    "command": "permix train cspvit/mine",
    "smoke": False,
    "commits": [],
    **dict.fromkeys(KEYS - {"name", "recipe", "command", "smoke", "commits"}, []),
}


@pytest.fixture(scope="module")
def preset(tmp_path_factory):
    folder = tmp_path_factory.mktemp("preset") / "preset"
    tiny().save_to_preset(folder, commit="a" * 40)
    return folder


@pytest.fixture
def run(tmp_path, preset):
    """Return the folder of a finished run."""
    run = tmp_path / "run"
    shutil.copytree(preset, run / "preset")
    for name in tool.REPORT:
        (run / name).write_text(f"new {name}")
    (run / "run.json").write_text(json.dumps(RECORD))
    return run


@pytest.fixture
def root(tmp_path):
    """Return a repository with the recipe, an older preset and its card."""
    root = tmp_path / "root"
    (root / "zoo/cspvit/mine").mkdir(parents=True)
    (root / "zoo/cspvit/mine/recipe.toml").write_text("the recipe")
    (root / "zoo/cspvit/mine/README.md").write_text("old card")
    (root / "weights/cspvit/mine").mkdir(parents=True)
    (root / "weights/cspvit/mine/model.weights.h5").write_text("old weights")
    return root


def contents(folder):
    """Return the contents of all files in a folder by path."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


def test_publish_copies_all_files(run, root):
    folders = tool.publish(run, root)
    assert [str(folder.relative_to(root)) for folder in folders] == [
        "weights/cspvit/mine", "zoo/cspvit/mine"
    ]  # fmt: skip
    assert contents(folders[0]) == contents(run / "preset")
    assert contents(folders[1]) == {
        "recipe.toml": b"the recipe",
        **{name: f"new {name}".encode() for name in tool.REPORT},
    }
    assert sorted(path.name for path in root.iterdir()) == ["weights", "zoo"]
    (run / "README.md").write_text(f"ViT.from_preset({tool.BESIDE}\n")
    tool.publish(run, root)
    assert (folders[1] / "README.md").read_text() == 'ViT.from_preset("mine")\n'
    metadata = json.loads((folders[0] / "metadata.json").read_text())
    assert metadata["commit"] == "a" * 40, "the commit of the training is kept"


def test_publish_first_preset(run, root):
    shutil.rmtree(root / "weights")
    tool.publish(run, root)
    assert contents(root / "weights/cspvit/mine") == contents(run / "preset")


def damage(run, how):
    if how == "weights":
        (run / "preset" / "model.weights.h5").write_bytes(b"")
    elif how == "recipe":
        (run / "run.json").write_text(json.dumps({**RECORD, "recipe": "/home/me/recipe.toml"}))
    elif how == "smoke":
        (run / "run.json").write_text(json.dumps({**RECORD, "smoke": True}))
    else:
        (run / how).unlink()


@pytest.mark.parametrize(
    ("how", "error", "rule"),
    [
        ("curves.png", FileNotFoundError, "curves.png"),
        ("README.md", FileNotFoundError, "README.md"),
        ("weights", ValueError, "model.weights.h5` must have"),
        ("run.json", FileNotFoundError, "run.json"),
        ("recipe", ValueError, "must have its recipe in the repository.*Received: /home/me"),
        ("smoke", ValueError, "A smoke run is not published"),
    ],
)
def test_invalid_run_changes_nothing(run, root, how, error, rule):
    damage(run, how)
    before = contents(root)
    with pytest.raises(error, match=rule):
        tool.publish(run, root)
    assert contents(root) == before
