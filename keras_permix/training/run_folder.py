"""Store a run: checkpoints, log, curves, TensorBoard events."""

import dataclasses
import io
import json
import time
from pathlib import Path
from typing import Any

import numpy as np

from keras_permix._typing import StrPath
from keras_permix.data.text.tokenizer import TOKENIZER_FILE
from keras_permix.recipes.recipe import Recipe
from keras_permix.training.callbacks import Progress
from keras_permix.training.checkpoints import STATE_FILE, load_checkpoint, save_checkpoint
from keras_permix.utils.checks import import_extra
from keras_permix.utils.files import hold_folder, sweep, write_bytes, write_text
from keras_permix.utils.tables import format_csv

PATH_KEYS = ("path", "train", "test")  # keys of a recipe's `data` for files and folders
# Files and folders for users; a smoke run has no card.
WRITTEN = {
    "preset": "preset",
    "card": "README.md",
    "log": "log.csv",
    "curves": "curves.png",
    "events": "tensorboard",
}
RECORD = "run.json"
NEEDED = ("matplotlib", "tensorboard")  # for curves and events


class RunFolder(Progress):
    """Save a run after each epoch, and resume it.

    A checkpoint holds an epoch's weights, optimizer state and log rows; the last two are kept.
    `log.csv`, `curves.png` and `tensorboard/` are written from these rows, so that a resumed run
    has the same log. The folder is locked until `utils.files.release_folder` is called or the
    process ends. `data` is the `fingerprint` of the data, or `None` to compare no data.

    Raises:
        ImportError: if matplotlib or TensorBoard is not installed.
        ValueError: if the folder holds a run of another recipe or other data, only damaged
            checkpoints, or other files that a run would overwrite.
        OSError: if another process trains in the folder, or it is not writable.
    """

    def __init__(self, path: StrPath, recipe: Recipe, data: dict[str, Any] | None = None) -> None:
        check_place(path)
        super().__init__(path, recipe)
        self.data = data
        self.path.mkdir(parents=True, exist_ok=True)
        if not hold_folder(self.path):
            raise OSError(f"`out` must not be in use by another process. Received: {self.path}")
        self._resume()

    def keep(self, weights: bytes) -> None:
        recipe = dataclasses.asdict(self.recipe)
        state = {"recipe": recipe, "rows": self.rows, "data": self.data}
        save_checkpoint(self.path / "checkpoints", self.epoch, state, weights, self.best)
        self._write()

    def _write(self):
        """Write events, curves and log; the log is last and marks them as complete."""
        write_events(self.path / "tensorboard", self.rows)
        draw_curves(self.rows, self.path / "curves.png")
        write_text(self.path / "log.csv", format_csv(self.rows))

    def check_data(self, data: dict[str, Any] | None) -> None:
        """Raise a `ValueError` for other data than those that the run started with, if known."""
        old, new = self.data or {}, data or {}
        keys = [key for key in {**old, **new} if old.get(key) != new.get(key)]
        if old and new and keys:
            changed = ", ".join(f"{key} {old.get(key)}, now {new.get(key)}" for key in keys)
            rule = "`out` must hold no run of other data"
            raise ValueError(f"{rule}. Received: {self.path} with {changed}")

    def _resume(self):
        for folder in (self.path, self.path / "checkpoints"):
            if folder.is_dir():
                sweep(folder)
        found = load_checkpoint(self.path / "checkpoints")
        if found is None:
            return
        state, *self.saved = found
        old, new = _comparable(state["recipe"]), _comparable(dataclasses.asdict(self.recipe))
        changed = [key for key in new if old.get(key) != new[key]]
        if changed:
            rule = "`out` must hold no run of another recipe"
            raise ValueError(f"{rule}. Received: {self.path} with other {', '.join(changed)}")
        self.rows, data = state["rows"], self.data
        self.data = state.get("data") or data
        self.check_data(data)
        log = self.path / "log.csv"
        if not log.is_file() or log.read_text(encoding="utf-8") != format_csv(self.rows):
            self._write()  # The process was killed before it did.


def check_place(path: StrPath) -> None:
    """Check that a run can be stored in a folder, without changing it."""
    for name in NEEDED:
        import_extra(name, "train", "Training")
    path = Path(path)
    written = (*WRITTEN.values(), "checkpoints", TOKENIZER_FILE)
    found = [name for name in written if _has_files(path / name)]
    if found and not ((path / RECORD).is_file() or has_checkpoints(path)):
        rule = "`out` must hold no files that a run writes"
        raise ValueError(f"{rule}. Received: {path} with {found}")


def has_checkpoints(path: StrPath) -> bool:
    """Return whether a folder has checkpoints to resume from."""
    return any(Path(path).glob(f"checkpoints/epoch_*/{STATE_FILE}"))


def _has_files(path):
    """Return whether a path is a file, or a folder with more than temporary files."""
    if not path.is_dir():
        return path.exists()
    return any(not other.name.startswith(".") for other in path.iterdir())


def _comparable(recipe):
    """Return the values of a recipe that a resumed run must share, with resolved paths."""
    recipe = json.loads(json.dumps({**recipe, "paper": None}))  # as a checkpoint stores it
    data = recipe.get("data", {})
    for key in PATH_KEYS:
        if isinstance(data.get(key), str):
            data[key] = str(Path(data[key]).resolve())
    return recipe


def write_events(folder: Path, rows: list[dict[str, Any]]) -> None:
    """Write the rows of a log as TensorBoard scalars, one file per epoch.

    TensorBoard reads new files but not changes of a file that it has read. The last row is always
    written, others only if their file is absent.
    """
    # Keras' callback requires TensorFlow, and `tensorboard.summary.Writer` imports it.
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
    """Draw loss and metrics over the epochs as a PNG file."""
    from matplotlib.figure import Figure

    metrics = [key for key in rows[0] if f"val_{key}" in rows[0]][:2]
    figure = Figure(figsize=(9, 3.5), layout="constrained")
    epochs = [row["epoch"] for row in rows]
    panels = figure.subplots(1, len(metrics), squeeze=False)[0]
    for axes, metric in zip(panels, metrics, strict=True):
        for key, label in ((metric, "training"), (f"val_{metric}", "validation")):
            axes.plot(epochs, [row.get(key, np.nan) for row in rows], label=label)
        axes.set(xlabel="epoch", ylabel=metric)
        axes.grid(alpha=0.3)
        axes.legend()
    save_figure(figure, path)


def save_figure(figure: Any, path: StrPath) -> None:
    """Save a figure of matplotlib as a PNG file atomically."""
    picture = io.BytesIO()
    figure.savefig(picture, format="png", dpi=120)
    write_bytes(path, picture.getvalue())
