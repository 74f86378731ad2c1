"""Publishing puts all of a run into the repository, or nothing."""

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
    """The folder of a finished run."""
    run = tmp_path / "run"
    shutil.copytree(preset, run / "preset")
    for name in tool.STORY:
        (run / name).write_text(f"new {name}")
    (run / "run.json").write_text(json.dumps(RECORD))
    return run


@pytest.fixture
def root(tmp_path):
    """A repository with the recipe, and an older preset with its story."""
    root = tmp_path / "root"
    (root / "zoo/cspvit/mine").mkdir(parents=True)
    (root / "zoo/cspvit/mine/recipe.toml").write_text("the recipe")
    (root / "zoo/cspvit/mine/README.md").write_text("old card")
    (root / "weights/cspvit/mine").mkdir(parents=True)
    (root / "weights/cspvit/mine/model.weights.h5").write_text("old weights")
    return root


def contents(folder):
    """What all files of a folder hold, by their paths."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


def test_everything_is_there(run, root):
    folders = tool.publish(run, root)
    assert [str(folder.relative_to(root)) for folder in folders] == [
        "weights/cspvit/mine", "zoo/cspvit/mine"
    ]  # fmt: skip
    assert contents(folders[0]) == contents(run / "preset")
    assert contents(folders[1]) == {
        "recipe.toml": b"the recipe",
        **{name: f"new {name}".encode() for name in tool.STORY},
    }
    assert sorted(path.name for path in root.iterdir()) == ["weights", "zoo"]
    metadata = json.loads((folders[0] / "metadata.json").read_text())
    assert metadata["commit"] == "a" * 40, "that of the training, not of today"


def test_a_first_preset(run, root):
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
        ("weights", ValueError, "model.weights.h5` must hold"),
        ("run.json", ValueError, "must contain `run.json`"),
        ("recipe", ValueError, "must have its recipe in the repository.*Received: /home/me"),
        ("smoke", ValueError, "A smoke run is not published"),
    ],
)
def test_nothing_of_a_run_that_is_not_whole(run, root, how, error, rule):
    damage(run, how)
    before = contents(root)
    with pytest.raises(error, match=rule):
        tool.publish(run, root)
    assert contents(root) == before


@pytest.mark.parametrize("fails", range(4))
@pytest.mark.parametrize("first", [True, False])
def test_nothing_where_a_rename_fails(run, root, monkeypatch, fails, first):
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
        pytest.skip("there are three renames only where no preset was")
    with pytest.raises(OSError, match="no room"):
        tool.publish(run, root)
    assert contents(root) == before


@pytest.mark.filterwarnings("ignore:os.fork:RuntimeWarning")  # of JAX, of which it calls nothing
@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize("rename", range(1, 5))
def test_what_a_killed_publishing_left_is_put_back_and_swept(run, root, rename, first):
    if first:
        shutil.rmtree(root / "weights")
    if first and rename == 4:
        pytest.skip("there are three renames only where no preset was")
    calls, before, move = [], contents(root), os.rename

    def deadly(*paths):
        calls.append(paths)
        if len(calls) == rename:
            os.kill(os.getpid(), signal.SIGKILL)
        move(*paths)

    killed(run, root, os, "rename", deadly)
    tool.recover(root)
    assert contents(root) == before
    tool.publish(run, root)
    assert contents(root / "weights/cspvit/mine") == contents(run / "preset")


@pytest.mark.filterwarnings("ignore:os.fork:RuntimeWarning")  # of JAX, of which it calls nothing
def test_what_a_publishing_had_ended_stays(run, root):
    killed(run, root, shutil, "rmtree", lambda *_, **__: os.kill(os.getpid(), signal.SIGKILL))
    tool.recover(root)
    assert contents(root / "weights/cspvit/mine") == contents(run / "preset")
    assert contents(root / "zoo/cspvit/mine")["README.md"] == b"new README.md"
    assert sorted(path.name for path in root.iterdir()) == ["weights", "zoo"]


def killed(run, root, module, name, deadly):
    """Publish in a process of its own, which `deadly` ends in place of a function of a module."""
    if (process := os.fork()) == 0:
        setattr(module, name, deadly)
        tool.publish(run, root)
        os._exit(0)
    assert os.waitpid(process, 0)[1] == signal.SIGKILL
    assert list(root.glob(".publish*")), "what this test is about"
