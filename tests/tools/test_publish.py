"""Test publishing: all files of a run are copied into the repository, or none."""

import importlib.util
import json
import os
import shutil
import signal

import pytest

from keras_permix.training.run import KEYS
from tests.harness import ROOT
from tests.zoo.models import tiny

spec = importlib.util.spec_from_file_location("publish", ROOT / "tools" / "publish.py")
tool = importlib.util.module_from_spec(spec)
spec.loader.exec_module(tool)

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
        ("weights", ValueError, "model.weights.h5` must contain"),
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


@pytest.mark.parametrize("fails", range(4))
@pytest.mark.parametrize("first", [True, False])
def test_failed_rename_changes_nothing(run, root, monkeypatch, fails, first):
    if first:
        shutil.rmtree(root / "weights")
    before, rename, calls = contents(root), os.rename, []

    def failing(*paths):
        calls.append(paths)
        if len(calls) == fails + 1:
            raise OSError("no room")
        rename(*paths)

    monkeypatch.setattr(os, "rename", failing)
    if first and fails == 3:
        pytest.skip("a first preset has only three renames")
    with pytest.raises(OSError, match="no room"):
        tool.publish(run, root)
    assert contents(root) == before


@pytest.mark.filterwarnings("ignore:os.fork:RuntimeWarning")  # from JAX, unused in the child
@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize("rename", range(1, 5))
def test_recover_undoes_unfinished_publishing(run, root, rename, first):
    if first:
        shutil.rmtree(root / "weights")
    if first and rename == 4:
        pytest.skip("a first preset has only three renames")
    calls, before, move = [], contents(root), os.rename

    def kill_at_rename(*paths):
        calls.append(paths)
        if len(calls) == rename:
            os.kill(os.getpid(), signal.SIGKILL)
        move(*paths)

    killed(run, root, os, "rename", kill_at_rename)
    tool.recover(root)
    assert contents(root) == before
    tool.publish(run, root)
    assert contents(root / "weights/cspvit/mine") == contents(run / "preset")


@pytest.mark.filterwarnings("ignore:os.fork:RuntimeWarning")  # from JAX, unused in the child
def test_recover_keeps_finished_publishing(run, root):
    killed(run, root, shutil, "rmtree", lambda *_, **__: os.kill(os.getpid(), signal.SIGKILL))
    tool.recover(root)
    assert contents(root / "weights/cspvit/mine") == contents(run / "preset")
    assert contents(root / "zoo/cspvit/mine")["README.md"] == b"new README.md"
    assert sorted(path.name for path in root.iterdir()) == ["weights", "zoo"]


def killed(run, root, module, name, replacement):
    """Publish in a child process that is killed when it calls a function of a module.

    The replacement of the function kills the process.
    """
    if (process := os.fork()) == 0:
        setattr(module, name, replacement)
        tool.publish(run, root)
        os._exit(0)
    assert os.waitpid(process, 0)[1] == signal.SIGKILL
    assert list(root.glob(".publish*")), "the killed process left its work folder"
