"""Name a run of a recipe, and record the commit, machine and versions that train it."""

import dataclasses
import datetime
import json
import shlex
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import keras

from keras_permix._typing import StrPath
from keras_permix._version import __version__
from keras_permix.ops.backend import running
from keras_permix.recipes.find import RECIPE_FILE, find_recipe, recipe_folders
from keras_permix.recipes.load import format_overrides, load_recipe
from keras_permix.recipes.recipe import Recipe, merge
from keras_permix.training.model import is_run, with_class
from keras_permix.training.run_folder import RECORD, has_checkpoints
from keras_permix.utils.files import write_bytes, write_text
from keras_permix.utils.machine import machine
from keras_permix.zoo.presets.folder import parse_json

FLAGS = ("init", "freeze", "epochs")  # values that are options of `permix train`
SMOKE = {
    "epochs": 2, "batch_size": 8, "validation_samples": 16, "steps_per_epoch": None,
    "early_stopping": None,
}  # fmt: skip
# Keys of a record that a resumed run keeps, and all keys.
OF_EPOCHS = (
    "commits", "callbacks", "version", "date", "machine", "keras", "backend", "backend_version",
)  # fmt: skip
KEYS = {"name", "recipe", "command", "smoke", *OF_EPOCHS}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Run:
    """Hold a recipe, the name of its preset, and the command that trains it.

    Args:
        recipe: The `Recipe`.
        name: Name of the preset, `class/preset`, including the option.
        source: File of the recipe, relative to the repository if the package has it.
        command: Command that trains it.
        option: Option of the recipe. Defaults to `None`.
        smoke: Whether this is a smoke run: two short epochs on generated data.
        is_known: Whether the recipe comes with the package.

    Example:
        >>> from keras_permix.training import plan_run
        >>> plan_run("cspvit/cifar10", smoke=True).folder.as_posix()
        'runs/cspvit/cifar10_smoke'
    """

    recipe: Recipe
    name: str
    source: str
    command: str
    option: str | None = None
    smoke: bool = False
    is_known: bool = False

    @property
    def folder(self) -> Path:
        """Return the default folder of the run."""
        return Path("runs", self.name + "_smoke" * self.smoke)


def plan_run(
    recipe: StrPath, option: str | None = None, smoke: bool = False, **changes: Any
) -> Run:
    """Read a recipe, and name its run.

    Args:
        recipe: Name or path of a recipe, or of images.
        option: Option of the recipe. Defaults to `None`.
        smoke: Whether to make it a smoke run. Defaults to `False`.
        **changes: New values of the recipe.

    Returns:
        A `Run`.

    Raises:
        ValueError: for an unknown recipe, option or key, or an invalid value.

    Example:
        >>> from keras_permix.training import plan_run
        >>> run = plan_run("cspvit/cifar10", "wide", epochs=2)
        >>> run.name, run.command
        ('cspvit/cifar10_wide', 'permix train cspvit/cifar10 --option wide --epochs 2')
    """
    values = load_recipe(recipe, option, **changes)
    if smoke:
        # A smoke run starts from new weights if its recipe starts from another run.
        fresh = {"init": None} if is_run(values.init) and "class_name" in values.model else {}
        values = load_recipe(recipe, option, **merge({**SMOKE, **fresh}, changes))
    if "class_name" not in values.model:
        values = with_class(values)
    found = find_recipe(recipe)
    path = found.resolve()
    folder = path.parent if found.name == RECIPE_FILE else path
    preset = folder.name if folder.is_dir() else folder.stem
    homes = [home for home in recipe_folders() if path.is_relative_to(home)]
    known = path.relative_to(homes[0]).as_posix() if homes else None
    words = ["permix", "train", str(Path(known).parent.as_posix() if known else recipe)]
    if option:
        preset, words = f"{preset}_{option}", [*words, "--option", option]
    for override in format_overrides(changes):
        key, _, value = override.partition("=")
        words += [f"--{key}", value] if key in FLAGS else ["--set", override]
    return Run(
        recipe=values,
        name=f"{values.model['class_name'].lower()}/{preset}",
        source=f"zoo/{known}" if known else str(recipe),
        command=shlex.join([*words, *(["--smoke"] if smoke else [])]),
        option=option,
        smoke=smoke,
        is_known=known is not None,
    )


class Recorder(keras.callbacks.Callback):
    """Write the record of a run, and its model's assets, at the beginning of each epoch.

    Date, machine and versions are those of the last epoch. A run that is resumed by another commit
    or with other callbacks, which the recipe does not define, records both.
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
            **now(),
        }
        if (self.folder / RECORD).is_file():
            before = read_record(folder)
            if has_checkpoints(folder):
                self.record |= {key: before[key] for key in OF_EPOCHS}

    def on_epoch_begin(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        for key, names in (("commits", [self.commit]), ("callbacks", self.callbacks)):
            self.record[key] = list(dict.fromkeys([*self.record[key], *filter(None, names)]))
        self.record |= now()
        write_text(self.folder / RECORD, json.dumps(self.record, indent=2) + "\n")
        for name, content in self.model.assets().items():
            write_bytes(self.folder / name, content)


def now() -> dict[str, str]:
    """Return the date, the machine and the versions for a record."""
    return {
        "date": datetime.date.today().isoformat(),
        "machine": machine(),
        "keras": keras.__version__,
        "backend": running.name(),
        "backend_version": running.version(),
    }


def read_record(folder: StrPath) -> dict[str, Any]:
    """Read the record of a run, and check that the file is not another one of this name."""
    path = Path(folder) / RECORD
    record = parse_json(path.read_bytes(), path)
    if not record.keys() >= KEYS:
        raise ValueError(f"`{path}` must be the record of a run. Received: {sorted(record)}")
    return record


def current_commit() -> str | None:
    """Return the commit of the package's checkout, or `None` for an installed package.

    A commit is followed by "-dirty" if files differ.
    """
    package = Path(__file__).resolve().parents[1]
    tracked = ["git", "ls-files", "--error-unmatch", "__init__.py"]
    commit = ["git", "describe", "--always", "--abbrev=40", "--dirty", "--exclude=*"]
    try:
        subprocess.run(tracked, cwd=package, check=True, capture_output=True)
        return subprocess.check_output(
            commit, cwd=package, stderr=subprocess.DEVNULL, encoding="utf-8"
        ).strip()
    except (OSError, subprocess.CalledProcessError):
        return None
