"""The folder of a training run: checkpoint, log, curves, TensorBoard events."""

import csv
import json
import os
import shutil
import time
from pathlib import Path

import keras
import numpy as np


class RunFolder(keras.callbacks.Callback):
    """Record a run after every epoch, so that it can be killed and resumed.

    An epoch's weights, optimizer state and log rows become one folder, `checkpoint`, put in place
    by a rename. `log.csv`, `curves.png` and `tensorboard/` are made from these rows.

    Args:
        path: The folder of the run. Made if absent.
        recipe: The recipe as a dict; a run is resumed only with the recipe it began with.

    Raises:
        ValueError: if the folder holds a run of another recipe.
    """

    def __init__(self, path, recipe):
        super().__init__()
        self.path = Path(path)
        self.path.mkdir(parents=True, exist_ok=True)
        self.recipe = recipe
        self.rows = []
        self._settle_interrupted_rename()
        if self.checkpoint.is_dir():
            state = json.loads((self.checkpoint / "state.json").read_text())
            changed = [
                key
                for key in recipe
                if key != "paper" and state["recipe"].get(key) != _plain(recipe[key])
            ]
            if changed:
                raise ValueError(
                    "A run is resumed with the recipe it began with. Give another `--out` folder "
                    f"or the old values. Received: {self.path}, where {changed} differ"
                )
            self.rows = state["rows"]

    @property
    def checkpoint(self):
        """The folder of the last finished epoch."""
        return self.path / "checkpoint"

    @property
    def epoch(self):
        """Number of finished epochs."""
        return len(self.rows)

    def restore(self, model):
        """Give `model` the weights and optimizer state of the last finished epoch, if any."""
        if self.epoch:
            model.optimizer.build(model.trainable_variables)
            model.load_weights(self.checkpoint / "state.weights.h5")

    def on_epoch_begin(self, epoch, logs=None):
        _seed(self.model, (self.recipe["seed"], epoch))
        self._started = time.perf_counter()

    def on_epoch_end(self, epoch, logs=None):
        values = {key: round(float(value), 6) for key, value in (logs or {}).items()}
        seconds = round(time.perf_counter() - self._started, 1)
        self.rows.append({"epoch": epoch + 1, **values, "seconds": seconds})
        self._save_checkpoint()
        self._write_log()
        write_events(self.path / "tensorboard", self.rows)
        draw_curves(self.rows, self.path / "curves.png")

    def _save_checkpoint(self):
        new, old = self.path / "checkpoint.new", self.path / "checkpoint.old"
        shutil.rmtree(new, ignore_errors=True)
        new.mkdir()
        self.model.save_weights(new / "state.weights.h5")
        state = {"recipe": _plain(self.recipe), "rows": self.rows}
        (new / "state.json").write_text(json.dumps(state, indent=1))
        if self.checkpoint.is_dir():
            os.rename(self.checkpoint, old)
        os.rename(new, self.checkpoint)
        shutil.rmtree(old, ignore_errors=True)

    def _settle_interrupted_rename(self):
        """Take the old checkpoint again if a kill fell between the two renames."""
        old = self.path / "checkpoint.old"
        if old.is_dir() and not self.checkpoint.is_dir():
            os.rename(old, self.checkpoint)

    def _write_log(self):
        with open(self.path / "log.csv", "w", newline="") as file:
            writer = csv.DictWriter(file, list(self.rows[0]), lineterminator="\n")
            writer.writeheader()
            writer.writerows(self.rows)


def _seed(model, seed):
    """Give all random numbers of the coming epoch a seed of their own.

    Keras does not save the state of a layer's seed generator with its weights.
    """
    rng = np.random.default_rng(seed)
    keras.utils.set_random_seed(int(rng.integers(2**31)))
    for layer in model._flatten_layers():
        for generator in layer._seed_generators:
            generator.state.assign(rng.integers(2**31, size=generator.state.shape))


def _plain(value):
    """The value as it comes back from JSON."""
    return json.loads(json.dumps(value))


def write_events(folder, rows):
    """Write the rows of a log as TensorBoard scalars, one file for the whole run."""
    # TensorBoard's own event writer would import TensorFlow where that is installed.
    from tensorboard.compat.proto.event_pb2 import Event
    from tensorboard.compat.proto.summary_pb2 import Summary
    from tensorboard.summary.writer.record_writer import RecordWriter

    folder.mkdir(exist_ok=True)
    with open(folder / "events.out.tfevents.0", "wb") as file:
        writer = RecordWriter(file)
        writer.write(Event(file_version="brain.Event:2").SerializeToString())
        for row in rows:
            tags = [key for key in row if key != "epoch"]
            values = [Summary.Value(tag=tag, simple_value=row[tag]) for tag in tags]
            event = Event(step=row["epoch"], summary=Summary(value=values))
            writer.write(event.SerializeToString())


def draw_curves(rows, path):
    """Draw the loss and the metrics over the epochs to a PNG."""
    from matplotlib.figure import Figure

    metrics = [key for key in rows[0] if f"val_{key}" in rows[0]][:2]
    figure = Figure(figsize=(9, 3.5), layout="constrained")
    epochs = [row["epoch"] for row in rows]
    for axes, metric in zip(figure.subplots(1, 2), metrics, strict=True):
        for key, label in ((metric, "training"), (f"val_{metric}", "validation")):
            if key in rows[0]:
                axes.plot(epochs, [row[key] for row in rows], label=label)
        axes.set(xlabel="epoch", ylabel=metric)
        axes.grid(alpha=0.3)
        axes.legend()
    figure.savefig(path, dpi=120)
