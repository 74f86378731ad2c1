"""Test checkpoints: interrupted runs, full disks, damaged files and locks."""

import dataclasses
import errno
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys

import numpy as np
import pytest

from keras_permix.training import checkpoints
from keras_permix.training.run_folder import RunFolder
from keras_permix.utils import files
from keras_permix.utils.files import release_folder
from tests.harness.processes import environment
from tests.training import runs
from tests.training.runs import train


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """Train for four epochs. Returns the folder, the model and the rows of the log."""
    out = tmp_path_factory.mktemp("finished")
    model, rows = train(runs.RECIPE, runs.make_images(), out, verbose=0)
    return out, model, rows


@pytest.fixture
def run(finished, tmp_path):
    """Copy the finished run, so that a test may modify it."""
    return shutil.copytree(finished[0], tmp_path / "run")


def resume(out):
    return train(runs.RECIPE, runs.make_images(), out, verbose=0)


def assert_same_result(ours, theirs):
    """Compare two results `(model, rows)`. Only the seconds may differ."""
    for mine, other in zip(ours[0].get_weights(), theirs[0].get_weights(), strict=True):
        np.testing.assert_array_equal(mine, other)
    assert [{**row, "seconds": 0} for row in ours[1]] == [
        {**row, "seconds": 0} for row in theirs[1]
    ]


def test_unrelated_checkpoint_folders_are_kept(run):
    for name in ("checkpoint", "checkpoint_backup"):
        (run / name).mkdir()
        (run / name / "state.json").write_text("{}")
    RunFolder(run, runs.RECIPE)
    release_folder(run)
    for name in ("checkpoint", "checkpoint_backup"):
        assert (run / name / "state.json").read_text() == "{}"


def test_partial_checkpoint_of_a_killed_process_is_removed(run, monkeypatch):
    before = sorted((run / "checkpoints").iterdir())
    with monkeypatch.context() as patch:
        patch.setattr(files.shutil, "rmtree", lambda *args, **kwargs: None)
        with pytest.raises(KeyboardInterrupt), files.replacing_folder(before[0]):
            raise KeyboardInterrupt
    assert len(list((run / "checkpoints").iterdir())) == len(before) + 1
    RunFolder(run, runs.RECIPE)
    release_folder(run)
    assert sorted((run / "checkpoints").iterdir()) == before


def test_last_two_checkpoints_are_kept(finished):
    out = finished[0]
    assert sorted(path.name for path in (out / "checkpoints").iterdir()) == [
        "epoch_0003",
        "epoch_0004",
    ]
    folder = out / "checkpoints" / "epoch_0004"
    sums = {
        f"{hashlib.sha256((folder / name).read_bytes()).hexdigest()}  {name}"
        for name in ("state.json", "state.weights.h5")
    }
    assert set((folder / "SHA256SUMS").read_text("utf-8").splitlines()) == sums


def test_run_killed_while_removing_checkpoint_resumes(finished, tmp_path, monkeypatch):
    class Kill(BaseException):
        """Imitate a kill, which `except Exception` does not catch."""

    def interrupted(path, *args, **kwargs):
        files = [file for file in path.rglob("*") if file.is_file()] if path.is_dir() else []
        if files:
            files[0].unlink()
            raise Kill

    with monkeypatch.context() as patch:
        patch.setattr(shutil, "rmtree", interrupted)
        with pytest.raises(Kill):
            resume(tmp_path)
    assert_same_result(resume(tmp_path), finished[1:])


@pytest.mark.parametrize("name", ["state.weights.h5", "state.json", "SHA256SUMS"])
@pytest.mark.parametrize("damage", ["flip", "truncate", "remove"])
def test_damaged_checkpoint_falls_back_to_previous(finished, run, name, damage):
    path = run / "checkpoints" / "epoch_0004" / name
    corrupt(path, damage)
    folder = path.parent
    with pytest.warns(UserWarning, match=f"resumes from epoch_0003: .*{re.escape(str(folder))}"):
        folder = RunFolder(run, runs.RECIPE)
    assert folder.epoch == 3 and folder.rows == finished[2][:3]


def test_run_that_fell_back_ends_the_same(finished, run):
    corrupt(run / "checkpoints" / "epoch_0004" / "state.weights.h5", "flip")
    with pytest.warns(UserWarning, match="resumes from epoch_0003"):
        again = resume(run)
    assert_same_result(again, finished[1:])
    assert RunFolder(run, runs.RECIPE).epoch == 4


def test_all_checkpoints_damaged_raises(run):
    for epoch in ("epoch_0003", "epoch_0004"):
        corrupt(run / "checkpoints" / epoch / "state.weights.h5", "truncate")
    message = rf"{run}.* remove it.*epoch_0004/state\.weights\.h5` must have.*epoch_0003"
    with pytest.raises(ValueError, match=message):
        RunFolder(run, runs.RECIPE)


def corrupt(path, damage):
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    if damage == "truncate":
        content = content[:-10]
    path.write_bytes(content)
    if damage == "remove":
        path.unlink()


HOLD = """
import sys
from keras_permix.training.run_folder import RunFolder
from tests.training import runs

folder = RunFolder(sys.argv[1], runs.RECIPE)
print("held", flush=True)
sys.stdin.read()
"""


def test_second_process_in_same_folder_raises(finished, run):
    command = [sys.executable, "-c", HOLD, str(run)]
    with subprocess.Popen(
        command, env=environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as other:
        assert other.stdout.readline() == b"held\n"
        message = f"`out` must not be in use by another process. Received: {run}"
        with pytest.raises(OSError, match=message):
            resume(run)
        other.kill()
    assert_same_result(resume(run), finished[1:])


def test_folder_is_unlocked_after_run(run):
    RunFolder(run, runs.RECIPE)
    resume(run)
    done = subprocess.run(
        [sys.executable, "-c", HOLD, str(run)],
        env=environment(),
        stdin=subprocess.DEVNULL,
    )
    assert done.returncode == 0


def test_full_disk_keeps_previous_checkpoint(finished, run, monkeypatch):
    def full(descriptor):
        raise OSError(errno.ENOSPC, "No space left on device")

    before = {path: path.read_bytes() for path in run.rglob("*.*") if path.is_file()}
    folder = RunFolder(run, runs.RECIPE)
    folder.set_model(finished[1])
    folder.set_params({"steps": 1})
    folder.on_epoch_begin(4)
    folder.on_train_batch_end(0)
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(OSError, match=r"epoch_0005.*\.new/.*` must .*No space left"):
            folder.on_epoch_end(4, {"loss": 0.5})
    assert {path: path.read_bytes() for path in run.rglob("*.*") if path.is_file()} == before
    assert RunFolder(run, runs.RECIPE).epoch == 4


def test_checkpoint_is_flushed_before_rename(tmp_path, monkeypatch):
    flushed, fsync, rename = [], os.fsync, os.rename

    def note(descriptor):
        flushed.append(os.fstat(descriptor).st_ino)
        fsync(descriptor)

    def check(source, target):
        for path in (source, *source.iterdir()):
            assert path.stat().st_ino in flushed, path
        flushed.clear()
        rename(source, target)

    monkeypatch.setattr(os, "fsync", note)
    monkeypatch.setattr(os, "rename", check)
    checkpoints.save_checkpoint(tmp_path, 1, {"rows": []}, b"weights")
    assert tmp_path.stat().st_ino in flushed
    state, weights, path = checkpoints.load_checkpoint(tmp_path)
    assert (state, weights) == ({"rows": []}, b"weights")
    assert path == tmp_path / "epoch_0001" / "state.weights.h5"


def test_resume_restores_loss_scale_optimizer(tmp_path):
    recipe = dataclasses.replace(runs.RECIPE, precision="mixed_float16", epochs=1)
    expected, _ = train(recipe, runs.make_images(), tmp_path, verbose=0)
    again, _ = train(recipe, runs.make_images(), tmp_path, verbose=0)
    assert type(again.optimizer).__name__ == "LossScaleOptimizer"
    for ours, theirs in zip(again.optimizer.variables, expected.optimizer.variables, strict=True):
        np.testing.assert_array_equal(ours.numpy(), theirs.numpy())


def test_other_recipe_raises_and_keeps_checkpoint(run):
    with pytest.raises(ValueError, match="`out` must .* with other epochs"):
        RunFolder(run, dataclasses.replace(runs.RECIPE, epochs=9))
    assert json.loads((run / "checkpoints" / "epoch_0004" / "state.json").read_text("utf-8"))
