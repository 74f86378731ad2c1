"""A run: a recipe, and the names of its preset, folder and command."""

import dataclasses
import shlex
from pathlib import Path
from typing import Any

from keras_permix._typing import StrPath
from keras_permix.recipes.find import RECIPE_FILE, find_recipe, recipe_folders
from keras_permix.recipes.load import format_overrides, load_recipe
from keras_permix.recipes.recipe import Recipe, merge
from keras_permix.training.start import is_run, with_class

FLAGS = ("init", "freeze", "epochs")  # values with a flag of `permix train`
SMOKE = {"epochs": 2, "batch_size": 8, "validation_samples": 16, "steps_per_epoch": None}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Run:
    """What is trained, and under which names.

    Args:
        recipe: The `Recipe`.
        name: Name of the preset, `class/preset`; an option is part of it.
        source: The recipe's file for a reader: in `zoo/` of the repository, else as it was given.
        command: The command that trains it.
        option: The recipe's option, or `None`.
        smoke: Whether this is a smoke run: two short epochs of generated data.
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
        """The default folder of the run."""
        return Path("runs", self.name + "_smoke" * self.smoke)


def plan_run(
    recipe: StrPath, option: str | None = None, smoke: bool = False, **changes: Any
) -> Run:
    """Read a recipe and name what it trains.

    Args:
        recipe, option, **changes: As for `load_recipe`.
        smoke: Whether to make it a smoke run.

    Returns:
        A `Run`.

    Raises:
        ValueError: as for `load_recipe`.

    Example:

    >>> from keras_permix.training import plan_run
    >>> run = plan_run("cspvit/cifar10", "wide", epochs=2)
    >>> run.name, run.command
    ('cspvit/cifar10_wide', 'permix train cspvit/cifar10 --option wide --epochs 2')
    """
    values = load_recipe(recipe, option, **changes)
    if smoke:
        # A smoke run does not need the run that its recipe starts from.
        fresh = {"init": None} if is_run(values.init) and values.model else {}
        values = load_recipe(recipe, option, **merge({**SMOKE, **fresh}, changes))
    if "class_name" not in values.model:
        values = with_class(values)
    path = find_recipe(recipe)
    folder = path.resolve().parent if path.name == RECIPE_FILE else path.resolve()
    preset = "_".join(filter(None, [folder.name if folder.is_dir() else folder.stem, option]))
    homes = [home for home in recipe_folders() if path.resolve().is_relative_to(home)]
    known = path.resolve().relative_to(homes[0]).as_posix() if homes else None
    words = ["permix", "train", str(Path(known).parent.as_posix() if known else recipe)]
    words += ["--option", option] if option else []
    words += [word for override in format_overrides(changes) for word in _words(override)]
    return Run(
        recipe=values,
        name=f"{values.model['class_name'].lower()}/{preset}",
        source=f"zoo/{known}" if known else str(recipe),
        command=shlex.join([*words, *(["--smoke"] if smoke else [])]),
        option=option,
        smoke=smoke,
        is_known=known is not None,
    )


def _words(override):
    """The words of a command that give an override."""
    key, _, value = override.partition("=")
    return (f"--{key}", value) if key in FLAGS else ("--set", override)
