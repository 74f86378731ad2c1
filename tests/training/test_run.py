"""Test training runs: logs, early stopping, class weights and resuming."""

import csv
import dataclasses
import shutil
import signal
import subprocess
import sys
import time

import keras
import numpy as np
import pytest

from keras_permix.recipes.recipe import make_recipe
from keras_permix.tasks import task_of
from keras_permix.training import fit_recipe, make_model
from keras_permix.training.distribute import Distribution
from keras_permix.training.fit import balanced_weights
from keras_permix.training.run_folder import write_events
from keras_permix.zoo import CSPViT
from tests.harness.processes import environment
from tests.training import runs
from tests.training.runs import train
from tests.zoo.models import tiny


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    out = tmp_path_factory.mktemp("finished")
    model, rows = train(runs.RECIPE, runs.make_images(), out, verbose=0)
    return out, model, rows


def test_training_reduces_loss(finished):
    _, model, rows = finished
    (_, _), (images, labels) = runs.make_images().train, runs.make_images().test
    assert rows[-1]["loss"] < rows[0]["loss"]
    assert np.mean(model.predict(images, verbose=0).argmax(-1) == labels) > 0.5


def test_run_writes_log_curves_and_events(finished):
    out, _, rows = finished
    with open(out / "log.csv") as file:
        logged = list(csv.DictReader(file))
    assert [row["epoch"] for row in logged] == ["1", "2", "3", "4"]
    assert float(logged[-1]["val_top1"]) == rows[-1]["val_top1"]
    assert (out / "curves.png").read_bytes().startswith(b"\x89PNG")
    assert read_events(out / "tensorboard", "val_top1") == pytest.approx(
        [row["val_top1"] for row in rows]
    )


@pytest.mark.once
def test_validation_split_replaces_test_set_in_log(finished, tmp_path):
    _, _, rows = finished
    data = runs.make_images()
    other_test = (data.test[0][:3], np.roll(data.test[1], 1)[:3])
    data = dataclasses.replace(data, test=other_test, validation=data.test)
    _, watched = train(dataclasses.replace(runs.RECIPE, epochs=4), data, tmp_path, verbose=0)
    assert [row["val_loss"] for row in watched] == [row["val_loss"] for row in rows]


@pytest.mark.once
def test_early_stopping_keeps_best_epoch(tmp_path):
    data = runs.make_images()
    wrong = (data.test[0], (data.test[1] + 1) % 3)  # makes the loss rise
    data = dataclasses.replace(data, validation=wrong)
    recipe = dataclasses.replace(runs.RECIPE, early_stopping=2, epochs=9)
    with pytest.raises(KeyboardInterrupt):
        train(recipe, data, tmp_path, verbose=0, callbacks=[StopAt(1)])
    model, rows = train(recipe, data, tmp_path, verbose=0)
    losses = [row["val_loss"] for row in rows]
    best = int(np.argmin(losses))
    assert len(rows) == best + 3 < 9
    batches = task_of(model).batches(wrong, 16)
    found = model.evaluate(batches, verbose=0, return_dict=True)["loss"]
    assert found == pytest.approx(losses[best], abs=1e-5) != losses[-1]
    names = sorted(path.name for path in (tmp_path / "checkpoints").iterdir())
    assert names == [f"epoch_{n:04d}" for n in (best + 1, best + 2, best + 3)]
    again, after = train(recipe, data, tmp_path, verbose=0)
    assert after == rows
    for ours, theirs in zip(again.get_weights(), model.get_weights(), strict=True):
        np.testing.assert_array_equal(ours, theirs)


class StopAt(keras.callbacks.Callback):
    def __init__(self, epoch):
        super().__init__()
        self.epoch = epoch

    def on_epoch_begin(self, epoch, logs=None):
        if epoch == self.epoch:
            raise KeyboardInterrupt


class StopWithin(keras.callbacks.Callback):
    """Stop within the second epoch, as a callback that watches the time does."""

    def on_train_batch_end(self, batch, logs=None):
        self.model.stop_training = self.model.optimizer.iterations == 7


@pytest.mark.once
def test_epoch_that_a_callback_stops_is_trained_again(finished, tmp_path):
    _, expected, rows = finished
    callbacks = [StopWithin()]
    _, stopped = train(runs.RECIPE, runs.make_images(), tmp_path, verbose=0, callbacks=callbacks)
    assert len(stopped) == 1
    model, resumed = train(runs.RECIPE, runs.make_images(), tmp_path, verbose=0)
    assert [row["loss"] for row in resumed] == [row["loss"] for row in rows]
    for ours, theirs in zip(model.get_weights(), expected.get_weights(), strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_options_reach_keras(tmp_path, monkeypatch):
    given, fit = {}, CSPViT.fit

    def watched(self, x, **arguments):
        given.update(arguments, x=x)
        return fit(self, x, **arguments)

    monkeypatch.setattr(CSPViT, "fit", watched)
    recipe = dataclasses.replace(runs.RECIPE, epochs=1, validation_samples=7)
    steps = 1 if keras.config.backend() == "torch" else 2
    # Two steps per execution do not divide the five steps of the epoch.
    model, rows = train(
        recipe, runs.make_images(), tmp_path, verbose=0, steps_per_execution=steps, workers=2
    )
    assert len(rows) == 1
    assert sum(len(y) for _, y in given["validation_data"]) == 7
    assert given["x"].threads == given["validation_data"].threads == 2
    assert model.steps_per_execution == steps
    assert (model.optimizer.use_ema, model.optimizer.ema_momentum) == (True, 0.9)


@pytest.mark.once
def test_class_weight_requires_one_class_per_sample():
    task = task_of(tiny("CSPViT", predicts="labels"))
    message = "`class_weight` requires one class.*multilabel_image_classification"
    with pytest.raises(ValueError, match=message):
        balanced_weights(runs.make_images(), task)


@pytest.mark.once
def test_class_weight_excludes_mixed_images(tmp_path):
    recipe = dataclasses.replace(runs.RECIPE, class_weight="balanced", augmentation={"cutmix": 1.0})
    with pytest.raises(ValueError, match="`class_weight` requires .*cutmix.*'cutmix': 1.0"):
        train(recipe, runs.make_images(), tmp_path / "run", verbose=0)


@pytest.mark.once
def test_lora_raises(tmp_path):
    model = make_model(runs.RECIPE)
    model.get_layer("block_0").mlp_in.enable_lora(2)
    with pytest.raises(ValueError, match="lose LoRA.*Received: "):
        fit_recipe(model, runs.RECIPE, runs.make_images(), tmp_path / "run", verbose=0)
    assert not (tmp_path / "run").exists()


@pytest.mark.once
def test_validation_needs_a_sample_per_device(tmp_path):
    here = Distribution()
    here.devices = 32
    recipe = dataclasses.replace(runs.RECIPE, batch_size=32)
    with pytest.raises(ValueError, match="a sample per device. Received: 16 samples, 32 devices"):
        train(recipe, runs.make_images(), tmp_path / "run", verbose=0, distribution=here)


@pytest.mark.once
def test_early_stopping_requires_validation_split(tmp_path):
    recipe = dataclasses.replace(runs.RECIPE, early_stopping=2)
    with pytest.raises(ValueError, match="`early_stopping`.*early_stopping=2"):
        train(recipe, runs.make_images(), tmp_path / "run", verbose=0)
    assert not (tmp_path / "run").exists()


def test_balanced_class_weights(tmp_path):
    data = runs.make_images()
    labels = np.repeat(np.arange(3, dtype="int32"), (40, 24, 16))
    data = dataclasses.replace(data, train=(data.train[0], labels))
    expected = {0: 80 / 120, 1: 80 / 72, 2: 80 / 48}
    values = dict(
        runs.VALUES, augmentation={}, class_weight="balanced", epochs=1, label_smoothing=0.3,
        optimizer=dict(name="sgd", learning_rate=0.0),
        model=dict(runs.VALUES["model"], dropout=0.0),
    )  # fmt: skip
    recipe = make_recipe(values, "here")
    model, rows = train(recipe, data, tmp_path, verbose=0)
    assert balanced_weights(data, task_of(model)) == pytest.approx(expected)
    logits = model.predict(data.train[0], verbose=0).astype("float64")
    log_sums = np.log(np.exp(logits).sum(-1))
    losses = log_sums - 0.7 * logits[np.arange(80), labels] - 0.3 * logits.mean(-1)
    weighted = losses * np.array([expected[label] for label in labels])
    assert rows[0]["loss"] == pytest.approx(weighted.mean(), rel=1e-4)
    assert abs(rows[0]["loss"] - losses.mean()) > 1e-4


def read_events(folder, tag):
    from tensorboard.backend.event_processing.event_file_loader import RawEventFileLoader
    from tensorboard.compat.proto.event_pb2 import Event

    return [
        value.simple_value
        for path in sorted(folder.iterdir())
        for event in map(Event.FromString, RawEventFileLoader(str(path)).Load())
        for value in event.summary.value
        if value.tag == tag
    ]


@pytest.mark.once
def test_open_tensorboard_shows_each_epoch(tmp_path):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    rows, board = [], EventAccumulator(str(tmp_path))
    began = time.time()
    for epoch in (1, 2, 3):
        rows.append({"epoch": epoch, "loss": 1 / epoch})
        write_events(tmp_path, rows)
        seen = board.Reload().Scalars("loss")
        assert [(event.step, event.value) for event in seen] == [
            (row["epoch"], pytest.approx(row["loss"])) for row in rows
        ]
        assert began <= seen[-1].wall_time <= time.time()
    (tmp_path / "events.out.tfevents.000001").unlink()
    write_events(tmp_path, rows)
    assert len(EventAccumulator(str(tmp_path)).Reload().Scalars("loss")) == 3


def test_killed_run_resumes_to_the_same_result(finished, tmp_path):
    _, expected, rows = finished
    command = [sys.executable, "-m", "tests.training.runs", str(tmp_path), "2"]
    killed = subprocess.run(command, env=environment(), capture_output=True, timeout=300)
    assert killed.returncode == -signal.SIGKILL, killed.stderr.decode()
    model, resumed = train(runs.RECIPE, runs.make_images(), tmp_path, verbose=0)
    without_time = [{**row, "seconds": 0} for row in rows]
    assert [{**row, "seconds": 0} for row in resumed] == without_time
    for ours, theirs in zip(model.get_weights(), expected.get_weights(), strict=True):
        np.testing.assert_array_equal(ours, theirs)


@pytest.mark.once
def test_logs_missing_after_kill_are_restored(finished, tmp_path):
    """A process may be killed between the last checkpoint and the log."""
    out, _, rows = finished
    run = tmp_path / "run"
    shutil.copytree(out, run)
    (run / "log.csv").write_text("epoch,loss\n")
    (run / "curves.png").unlink()
    (run / "tensorboard" / "events.out.tfevents.000004").unlink()
    train(runs.RECIPE, runs.make_images(), run, verbose=0)
    assert (run / "log.csv").read_bytes() == (out / "log.csv").read_bytes()
    assert (run / "curves.png").is_file()
    assert len(read_events(run / "tensorboard", "loss")) == len(rows)


@pytest.mark.once
@pytest.mark.parametrize(
    "change", ["extra class", "missing sample", "other targets", "other input"]
)
def test_resume_with_other_data_raises(finished, change):
    images = runs.make_images()
    (x, y), (x_test, y_test) = images.train, images.test
    part, value = {
        "extra class": ("labels", (*"abcd",)),
        "missing sample": ("train", (x[1:], y[1:])),
        "other targets": ("test", (x_test, y_test[::-1])),
        "other input": ("train", (np.concatenate([x[:1] ^ 1, x[1:]]), y)),
    }[change]
    changed = dataclasses.replace(images, **{part: value})
    with pytest.raises(ValueError, match=f"`out` must .* with {part} "):
        train(runs.RECIPE, changed, finished[0], verbose=0)


def test_resume_with_other_recipe_raises(finished):
    out, _, _ = finished
    with pytest.raises(ValueError, match="`out` must .* with other epochs"):
        train(dataclasses.replace(runs.RECIPE, epochs=9), runs.make_images(), out, verbose=0)
