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
