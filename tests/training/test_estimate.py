"""How long a run will take is said once, in steps, whatever the number between two looks."""

import time

import pytest

from keras_permix.training.estimate import Estimate

pytestmark = pytest.mark.once


@pytest.mark.parametrize("between", [1, 5])
def test_steps_are_counted_not_looks(between, monkeypatch, capsys):
    now = [0.0]
    monkeypatch.setattr(time, "perf_counter", lambda: now[0])
    estimate = Estimate()
    estimate.set_params({"steps": 200, "epochs": 2})
    estimate.on_epoch_begin(0)
    for batch in range(between - 1, 200, between):
        now[0] += 1  # a second a look
        estimate.on_train_batch_end(batch)
    done = 22 * between
    assert f" {400 - done} steps of {1 / between:.3g} s" in capsys.readouterr().out


@pytest.mark.parametrize("batches", [2, 5])
def test_validation_is_counted_after_an_epoch_and_compiling_is_not(batches, monkeypatch, capsys):
    now = [0.0]
    monkeypatch.setattr(time, "perf_counter", lambda: now[0])
    estimate = Estimate()
    estimate.set_params({"steps": 10, "epochs": 4})
    for epoch in range(3):
        estimate.on_epoch_begin(epoch)
        for batch in range(10):
            now[0] += 2 if epoch or batch > 1 else 50
            estimate.on_train_batch_end(batch)
        for batch in range(batches):
            now[0] += 3 if 0 < batch < batches - 1 else 70
            estimate.on_test_batch_end(batch)
        now[0] += 4  # to keep it
        estimate.on_epoch_end(epoch)
    steps, *epochs = capsys.readouterr().out.strip().splitlines()
    assert steps.startswith("About 1 min to come: 30 steps of 2 s;")
    said = ["About 1 min 57 s to come: 3 epochs of 39 s, and then the test."]
    assert epochs == (said if batches > 2 else [])
