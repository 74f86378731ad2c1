"""The folder of a training run: checkpoints, log, curves, TensorBoard events."""

import csv
import dataclasses
import io
import json
import time
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from keras_permix._typing import Model, StrPath
from keras_permix.data.text.tokenizer import TOKENIZER_FILE
from keras_permix.recipes.recipe import Recipe
from keras_permix.training.checkpoints import (
    STATE_FILE,
    load_checkpoint,
    read_weights,
    save_checkpoint,
)
from keras_permix.training.progress import Progress
from keras_permix.utils.files import (
    hold_folder,
    release_folder,
    sweep,
    write_bytes,
    write_text,
)
from keras_permix.zoo.presets.weights import load_weights_content

OF_ONES_OWN = ("path", "train", "test")  # what a recipe's `data` names files or folders by
# What a run writes, with its record and the assets of its model.
OWN = ("README.md", "checkpoints", "curves.png", "log.csv", "preset", "tensorboard", TOKENIZER_FILE)
RECORD = "run.json"
NEEDED = ("matplotlib", "tensorboard")  # for what is drawn and written after every epoch


class RunFolder(Progress):
    """Record a run after every epoch, so that it can be killed and resumed.

    An epoch's weights, optimizer state and log rows become one checkpoint, of which the last two
    stay. `log.csv`, `curves.png` and `tensorboard/` are made from these rows. The folder belongs to
    this process until it is released (`utils.files.release_folder`) or the process ends.

    Args:
        path: The folder of the run. Made if absent.
        recipe: The `Recipe`; a run is resumed only with the recipe it began with.
        data: The `fingerprint` of its data, and with these; `None`: whatever they are.

    Raises:
        ImportError: if what records a run is not installed.
        ValueError: if the folder holds a run of another recipe or of other data, damaged
            checkpoints alone, or what is no run's and would be overwritten.
        OSError: if another process trains in the folder, or it cannot be written.
    """

    def __init__(self, path: StrPath, recipe: Recipe, data: dict[str, Any] | None = None) -> None:
        check_installed()
        check_place(path)
        super().__init__(recipe)
        self.path, self.data = Path(path), data
        self.path.mkdir(parents=True, exist_ok=True)
        if not hold_folder(self.path):
            raise OSError(
                "A run's folder is one process's at a time. Wait for the other, or give another "
                f"`--out` folder. Received: {self.path}, where another process trains"
            )
        try:
            self._resume(data)
        except BaseException:
            release_folder(self.path)
            raise

    def keep(self, weights: bytes) -> None:
        state = {
            "recipe": _plain(dataclasses.asdict(self.recipe)),
            "rows": self.rows,
            "data": self.data,
        }
        save_checkpoint(self.path / "checkpoints", self.epoch, state, weights, self.best)
        self._write()

    def restore_best(self, model: Model) -> None:
        weights = read_weights(self.path / "checkpoints", self.best or self.epoch)
        load_weights_content(model, *weights)
        if self.recipe.ema is not None:
            model.optimizer.finalize_variable_values(model.trainable_variables)

    def _write(self):
        """Write what is made from the rows; the log, which comes last, tells that it was."""
        write_events(self.path / "tensorboard", self.rows)
        draw_curves(self.rows, self.path / "curves.png")
        write_text(self.path / "log.csv", format_log(self.rows))

    def check_data(self, data: dict[str, Any] | None) -> None:
        """Raise a ValueError if data, of this `fingerprint`, are not those that the run began with.

        Where either is not known, they are taken for the same.
        """
        began, now = self.data or data or {}, data or self.data or {}
        differ = [key for key in {**began, **now} if began.get(key) != now.get(key)]
        if differ:
            raise ValueError(
                "A run is resumed with the data it began with. Give another `--out` folder or the "
                f"old data. Received: {self.path}, where {', '.join(differ)} differ: "
                f"{[began.get(key) for key in differ]}, and now {[now.get(key) for key in differ]}"
            )

    def _resume(self, data):
        sweep(self.path)
        found = load_checkpoint(self.path / "checkpoints")
        if found is None:
            return
        state, *self.saved = found
        now = dataclasses.asdict(self.recipe)
        old, new = (_comparable(recipe) for recipe in (state["recipe"], now))
        changed = [key for key in new if old.get(key) != new[key]]
        if changed:
            raise ValueError(
                "A run is resumed with the recipe it began with. Give another `--out` folder "
                f"or the old values. Received: {self.path}, where {changed} differ"
            )
        self.rows, self.data = state["rows"], state.get("data") or self.data
        self.check_data(data)
        log = self.path / "log.csv"
        if not log.is_file() or log.read_text(encoding="utf-8") != format_log(self.rows):
            self._write()  # as a process that was killed could not


def check_installed() -> None:
    """Raise an ImportError unless all that records a run is installed."""
    if absent := [name for name in NEEDED if not find_spec(name)]:
        raise ImportError(
            f'Training needs {" and ".join(absent)}: pip install "keras_permix[train]".'
        )


def check_place(path: StrPath) -> None:
    """Raise unless a run can be kept in a folder, which may be absent, without harm to other files.

    Raises:
        ValueError: for a folder of something else that has one of a run's names.
    """
    path = Path(path)
    found = [name for name in OWN if _holds_something(path / name)]
    if found and not ((path / RECORD).is_file() or has_checkpoints(path)):
        raise ValueError(
            "The `out` folder of a run must be new, hold a run, or none of the names that a run "
            f"writes. Received: {path} with {', '.join(found)} of something else"
        )


def has_checkpoints(path: StrPath) -> bool:
    """Whether a folder has epochs to go on from."""
    return any(Path(path).glob(f"checkpoints/epoch_*/{STATE_FILE}"))


def check_apart(path: StrPath, data: dict[str, Any], data_dir: StrPath | None) -> None:
    """Raise if a run would lie within the folder that it is trained on, and be a class there.

    Args:
        path: The folder of the run.
        data: The recipe's `data`.
        data_dir: Folder that its files are relative to.

    Raises:
        ValueError: for a folder there.
    """
    if data.get("source") != "folder":
        return
    trained_on = Path(data_dir or ".", data.get("path") or data["name"]).resolve()
    if trained_on in (Path(path).resolve(), *Path(path).resolve().parents):
        raise ValueError(
            "The `out` folder of a run must lie outside the folder that it is trained on. "
            f"Received: {path} in {trained_on}"
        )


def _holds_something(path):
    """Whether there is a file, or a folder with more than what a killed process left in it."""
    if not path.is_dir():
        return path.exists()
    return any(not other.name.startswith(".") for other in path.iterdir())


def _comparable(recipe):
    """What two recipes of one run have in common: folders and files however they are written."""
    recipe = _plain({key: value for key, value in recipe.items() if key != "paper"})
    data = recipe.get("data", {})
    for key in OF_ONES_OWN:
        if isinstance(data.get(key), str):
            data[key] = str(Path(data[key]).resolve())
    return recipe


def _plain(value):
    """The value as it comes back from JSON."""
    return json.loads(json.dumps(value))


def format_log(rows: list[dict[str, Any]]) -> str:
    """The rows of a log as CSV."""
    text = io.StringIO()
    keys = list(dict.fromkeys(key for row in rows for key in row))
    writer = csv.DictWriter(text, keys, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def write_events(folder: Path, rows: list[dict[str, Any]]) -> None:
    """Write the last row of a log as TensorBoard scalars, and others that are not there.

    Each has a file of its own: TensorBoard goes on to files that are new, and would not see that
    one is replaced which it has read.
    """
    # TensorBoard's own event writer would import TensorFlow where that is installed.
    from tensorboard.compat.proto.event_pb2 import Event
    from tensorboard.compat.proto.summary_pb2 import Summary
    from tensorboard.summary.writer.record_writer import RecordWriter

    folder.mkdir(exist_ok=True)
    for row in rows:
        path = folder / f"events.out.tfevents.{row['epoch']:06d}"
        if path.exists() and row is not rows[-1]:
            continue
        tags = [key for key in row if key != "epoch"]
        values = [Summary.Value(tag=tag, simple_value=row[tag]) for tag in tags]
        scalars = Event(step=row["epoch"], wall_time=time.time(), summary=Summary(value=values))
        file = io.BytesIO()
        for event in (Event(file_version="brain.Event:2"), scalars):
            RecordWriter(file).write(event.SerializeToString())
        write_bytes(path, file.getvalue())


def draw_curves(rows: list[dict[str, Any]], path: StrPath) -> None:
    """Draw the loss and the metrics over the epochs to a PNG."""
    from matplotlib.figure import Figure

    metrics = [key for key in rows[0] if f"val_{key}" in rows[0]][:2]
    figure = Figure(figsize=(9, 3.5), layout="constrained")
    epochs = [row["epoch"] for row in rows]
    panels = figure.subplots(1, len(metrics), squeeze=False)[0]
    for axes, metric in zip(panels, metrics, strict=True):
        for key, label in ((metric, "training"), (f"val_{metric}", "validation")):
            if key in rows[0]:
                axes.plot(epochs, [row.get(key, np.nan) for row in rows], label=label)
        axes.set(xlabel="epoch", ylabel=metric)
        axes.grid(alpha=0.3)
        axes.legend()
    picture = io.BytesIO()
    figure.savefig(picture, format="png", dpi=120)
    write_bytes(path, picture.getvalue())
