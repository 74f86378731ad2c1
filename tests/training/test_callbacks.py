"""Test the training callbacks."""

import time

import pytest

from keras_permix.training import load_recipe
from keras_permix.training.callbacks import Estimate, Progress
from tests.zoo.models import tiny

pytestmark = pytest.mark.once


def test_small_losses_are_compared(tmp_path):
    recipe = load_recipe("cspvit/mnist", early_stopping=1)
    progress = Progress(tmp_path, recipe)
    progress.set_model(tiny("CSPViT"))
    progress.set_params({"steps": 1})
    for epoch, loss in enumerate([4e-7, 2e-7, 1e-7]):
        progress.on_epoch_begin(epoch)
        progress.on_train_batch_end(0)
        progress.on_epoch_end(epoch, {"loss": 1 / 3, "val_loss": loss})
    assert (progress.best, progress.is_stopped()) == (3, False)
    assert progress.rows[2]["val_loss"] == 1e-7 and progress.rows[2]["loss"] == 0.3333333


@pytest.mark.parametrize("between", [1, 5])
def test_estimate_counts_steps_not_callbacks(between, monkeypatch, capsys):
    now = [0.0]
    monkeypatch.setattr(time, "perf_counter", lambda: now[0])
    estimate = Estimate()
    estimate.set_params({"steps": 200, "epochs": 2})
    estimate.on_epoch_begin(0)
    for batch in range(between - 1, 200, between):
        now[0] += 1  # one second per callback
        estimate.on_train_batch_end(batch)
    done = 22 * between
    out = capsys.readouterr().out
    assert out.count(" left: ") == 1
    assert f" {400 - done} steps of {1 / between:.3g} s" in out


def test_estimate_of_short_epochs_excludes_validation(monkeypatch, capsys):
    now = [0.0]
    monkeypatch.setattr(time, "perf_counter", lambda: now[0])
    estimate = Estimate()
    estimate.set_params({"steps": 1, "epochs": 9})
    for epoch in range(3):
        estimate.on_epoch_begin(epoch)
        now[0] += 1
        estimate.on_train_batch_end(0)
        now[0] += 60  # of validation
    assert " 6 steps of 1 s" in capsys.readouterr().out
