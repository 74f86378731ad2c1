"""A run: one recipe, one of its options, and all that is called after them."""

import dataclasses
import functools
import shlex
from pathlib import Path
from typing import Any

from keras_permix.recipe import (
    check_overrides,
    find_recipe,
    load_recipe,
    parse_override,
    recipe_folders,
)
from keras_permix.training.start import is_run, with_class

OPTIONS = ("init", "freeze", "epochs")  # those of the values that `permix train` has options for
SMOKE = ("epochs=2", "batch_size=8", "validation_samples=16", "steps_per_epoch=None")


@dataclasses.dataclass(frozen=True)
class Run:
    """What is trained, and what the preset, the folder and the commands are called.

    Args:
        recipe: Name (`"cspvit/cifar10"`) or path of a recipe, or a folder of images.
        option: One of the recipe's named options.
        overrides: Strings `"epochs=2"` that change values of the recipe.
        smoke: Whether to only try it out: two short epochs of generated data, or of a few images
            of one's own.

    Example:

    >>> from keras_permix.training import Run
    >>> Run("cspvit/cifar10", "wide").name
    'cspvit/cifar10_wide'
    >>> Run("cspvit/cifar10", "wide").command
    'permix train cspvit/cifar10 --option wide'
    """

    recipe: str
    option: str | None = None
    overrides: tuple[str, ...] = ()
    smoke: bool = False

    @functools.cached_property
    def values(self) -> dict[str, Any]:
        """The recipe's values as a dict; see `load_recipe`."""
        values = load_recipe(self.recipe, self.option, _set_once(self.overrides))
        if self.smoke:
            # It takes no earlier run, unless it is asked to.
            fresh = ["init=None"] if is_run(values["init"]) and values["model"] else []
            values = load_recipe(self.recipe, self.option, (*SMOKE, *fresh, *self.overrides))
        return values if "class_name" in values["model"] else with_class(values)

    @functools.cached_property
    def path(self) -> Path:
        """The recipe's file."""
        return find_recipe(self.recipe).resolve()

    @property
    def name(self) -> str:
        """Name of the preset, `class/preset`: an option is part of it."""
        path = self.path.parent if self.path.name == "recipe.py" else self.path
        preset = path.name if path.is_dir() else path.stem
        parts = [preset, *([self.option] if self.option else [])]
        return f"{str(self.values['model'].get('class_name')).lower()}/{'_'.join(parts)}"

    @property
    def source(self) -> str:
        """The recipe's file for a reader: in `zoo/` of the repository, else as it was given."""
        known = self._known_path()
        return f"zoo/{known.as_posix()}" if known else str(self.recipe)

    @property
    def command(self) -> str:
        """The command that trains it."""
        known = self._known_path()
        words = ["permix", "train", known.parent.as_posix() if known else str(self.recipe)]
        words += ["--option", self.option] if self.option else []
        words += [word for override in self.overrides for word in _option(override)]
        return shlex.join([*words, *(["--smoke"] if self.smoke else [])])

    @property
    def folder(self) -> Path:
        """Where the run is kept if nobody says otherwise."""
        return Path("runs", self.name + "_smoke" * self.smoke)

    @property
    def is_known(self) -> bool:
        """Whether the recipe is one of those that come with the package."""
        return self._known_path() is not None

    def _known_path(self):
        """The recipe's file within a folder of recipes that the package knows, or `None`."""
        for folder in map(Path.resolve, recipe_folders()):
            if self.path.is_relative_to(folder):
                return self.path.relative_to(folder)


def _set_once(overrides):
    """Overrides, if no two of them are of the same value."""
    overrides = check_overrides(overrides)
    keys = [override.partition("=")[0].strip() for override in overrides]
    twice = [word for key, word in zip(keys, overrides, strict=True) if keys.count(key) > 1]
    if twice:
        raise ValueError(f"A value of a recipe must be set once. Received: {', '.join(twice)}")
    return overrides


def _option(override):
    """The words that give an override: those of its own option, or `--set KEY=VALUE`."""
    [(key, value)] = parse_override(override).items()
    plain = isinstance(value, str | int)  # and no list of names, or None
    return (f"--{key}", str(value)) if key in OPTIONS and plain else ("--set", override)
