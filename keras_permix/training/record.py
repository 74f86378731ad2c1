"""What a run folder says of its run: name, command, and what trained it: commit, machine, Keras."""

import datetime
import json
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import keras

from keras_permix._typing import StrPath
from keras_permix._version import __version__
from keras_permix.ops.backend import running
from keras_permix.training.run import Run
from keras_permix.training.run_folder import RECORD, has_checkpoints
from keras_permix.utils.files import write_bytes, write_text
from keras_permix.utils.machine import machine

KEYS = {"name", "recipe", "command", "smoke", "commits"}  # which others read
# What a run that goes on keeps of what was noted before.
OF_EPOCHS = (
    "commits", "callbacks", "version", "date", "machine", "keras", "backend", "backend_version",
)  # fmt: skip


class Recorder(keras.callbacks.Callback):
    """Note in a run folder what is trained there, and the commit, when an epoch begins.

    The model's assets, such as its tokenizer, are kept beside it.

    Date, machine, and the versions of Keras and backend are those of the last epoch; the commit is
    that of this process's code. A run that another commit goes on with has both, and so it is with
    callbacks.

    Args:
        folder: The run folder.
        run: The `Run`.
        callbacks: Those that are not the recipe's.
    """

    def __init__(self, folder: StrPath, run: Run, callbacks: Iterable[Any] = ()) -> None:
        super().__init__()
        self.folder = Path(folder)
        self.commit = current_commit()
        self.callbacks = [type(callback).__name__ for callback in callbacks]
        self.record: dict[str, Any] = {
            "name": run.name,
            "recipe": run.source,
            "command": run.command,
            "smoke": run.smoke,
            "version": __version__,
            "commits": [],
            "callbacks": [],
            **_now(),
        }
        if (self.folder / RECORD).is_file():
            before = read_record(folder)
            if has_checkpoints(folder):
                self.record |= {key: before[key] for key in OF_EPOCHS if key in before}

    def on_epoch_begin(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        for key, names in (("commits", [self.commit]), ("callbacks", self.callbacks)):
            self.record[key] = list(dict.fromkeys([*self.record[key], *filter(None, names)]))
        self.record |= _now()
        write_text(self.folder / RECORD, json.dumps(self.record, indent=2) + "\n")
        for name, content in self.model.assets().items():
            write_bytes(self.folder / name, content)


def _now():
    return {
        "date": datetime.date.today().isoformat(),
        "machine": machine(),
        "keras": keras.__version__,
        "backend": running.name(),
        "backend_version": running.version(),
    }


def read_record(folder: StrPath) -> dict[str, Any]:
    """The record of a run folder.

    Raises:
        ValueError: if the folder holds none, or a damaged one.
    """
    path = Path(folder) / RECORD
    if not path.is_file():
        raise ValueError(f"`{RECORD}` must lie in the folder of a run. Received: {folder}")
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
        if not (isinstance(record, dict) and record.keys() >= KEYS):
            raise ValueError(f"without all of {', '.join(sorted(KEYS))}")
    except (ValueError, RecursionError) as error:
        raise ValueError(
            f"`{RECORD}` must be the JSON that a run writes. Remove it, and the run goes on. "
            f"Received: {path} ({error})"
        ) from error
    return record


def current_commit() -> str | None:
    """The commit that this package is checked out at, "-dirty" where files differ from it.

    Returns:
        40 hex digits and perhaps "-dirty"; `None` for an installed package.
    """
    package = Path(__file__).resolve().parents[1]
    tracked = _git(package, "ls-files", "--error-unmatch", "__init__.py")
    if tracked is None:
        return None
    return _git(package, "describe", "--always", "--abbrev=40", "--dirty", "--exclude=*")


def _git(folder, *arguments):
    try:
        done = subprocess.run(
            ["git", *arguments], cwd=folder, check=True, capture_output=True, encoding="utf-8"
        )
    except (OSError, subprocess.CalledProcessError):
        return None
    return done.stdout.strip()
