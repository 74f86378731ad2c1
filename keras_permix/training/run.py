"""A run: one recipe, one of its options, and all that is called after them."""

import dataclasses
import functools
import shlex
from pathlib import Path
from typing import NamedTuple

from keras_permix.recipe import find_recipe, load_recipe, recipe_folders
from keras_permix.safe_files import release_folder
from keras_permix.tasks import task_of
from keras_permix.training.estimate import Estimate
from keras_permix.training.finish import finish
from keras_permix.training.fit import fit_recipe
from keras_permix.training.record import Recorder
from keras_permix.training.schedules import make_optimizer
from keras_permix.training.start import fit_head, make_model, with_class

SMOKE = ("epochs=2", "batch_size=8", "validation_samples=16")
SMOKE_SAMPLES = 32


@dataclasses.dataclass(frozen=True)
class Run:
    """What is trained, and what the preset, the folder and the commands are called.

    Args:
        recipe: Name (`"cspvit/cifar10"`) or path of a recipe.
        option: One of the recipe's named options.
        overrides: Strings `"epochs=2"` that change values of the recipe.
        smoke: Whether to only try it out: two short epochs of generated data.

    Example:

    >>> from keras_permix.training import Run
    >>> Run("cspvit/cifar10", "wide").name
    'cspvit/cifar10_wide'
    >>> Run("cspvit/cifar10", "wide").command
    'permix train cspvit/cifar10 --option wide'
    """

    recipe: str
    option: str | None = None
    overrides: tuple = ()
    smoke: bool = False

    @functools.cached_property
    def values(self):
        """The recipe's values as a dict; see `load_recipe`."""
        values = load_recipe(self.recipe, self.option, self.overrides)
        if self.smoke:
            values = load_recipe(self.recipe, self.option, (*SMOKE, *self.overrides))
        return with_class(values)

    @functools.cached_property
    def path(self):
        """The recipe's file."""
        return find_recipe(self.recipe).resolve()

    @property
    def name(self):
        """Name of the preset, `class/preset`: an option is part of it."""
        preset = self.path.parent.name if self.path.name == "recipe.py" else self.path.stem
        parts = [preset, *([self.option] if self.option else [])]
        return f"{str(self.values['model'].get('class_name')).lower()}/{'_'.join(parts)}"

    @property
    def source(self):
        """The recipe's file for a reader: in `zoo/` of the repository, else as it was given."""
        known = self._known_path()
        return f"zoo/{known.as_posix()}" if known else str(self.recipe)

    @property
    def command(self):
        """The command that trains it."""
        known = self._known_path()
        words = ["permix", "train", known.parent.as_posix() if known else str(self.recipe)]
        words += ["--option", self.option] if self.option else []
        words += [word for override in self.overrides for word in ("--set", override)]
        return shlex.join([*words, *(["--smoke"] if self.smoke else [])])

    @property
    def folder(self):
        """Where the run is kept if nobody says otherwise."""
        return Path("runs", self.name + "_smoke" * self.smoke)

    @property
    def is_known(self):
        """Whether the recipe is one of those that come with the package."""
        return self._known_path() is not None

    def _known_path(self):
        """The recipe's file within a folder of recipes that the package knows, or `None`."""
        for folder in map(Path.resolve, recipe_folders()):
            if self.path.is_relative_to(folder):
                return self.path.relative_to(folder)


class Trained(NamedTuple):
    """What `train` gives: the model, the log, the scores of its preset, the folder of the run."""

    model: object
    rows: list
    scores: dict
    folder: Path


def train(
    recipe, option=None, overrides=(), *, out=None, data_dir=None, smoke=False, verbose=1,
    callbacks=(),
):  # fmt: skip
    """Train a preset from its recipe, or go on with a run that was stopped: `permix train`.

    A recipe may start from a preset's weights (`init`), keep parts of them (`freeze`), and read
    images of one's own (`data`: see `keras_permix.tasks.ImageClassification.load`). Without a
    `num_classes`, the model has as many as the data has labels.

    The folder of the run gets a checkpoint and the log after each epoch, and at the end the
    preset (`preset/`) and its card (`README.md`; none for a smoke run). How long it will take is
    said after the first steps.

    Args:
        recipe: Name (`"cspvit/cifar10_small"`) or path of a recipe.
        option: One of the recipe's named options.
        overrides: Strings that change values of the recipe: `["epochs=2", "model.width=64"]`.
        out: Folder of the run. `None`: `runs/` and the name of the preset.
        data_dir: Folder with data files.
        smoke: Whether to only try it out: two short epochs of generated data.
        verbose: Progress of `fit`: 0 silent, 1 a bar, 2 a line per epoch.
        callbacks: More Keras callbacks for `fit`.

    Returns:
        A `Trained`: `model`, `rows`, `scores`, `folder`.

    Raises:
        ValueError: for an unknown recipe, option or value, or a folder with another recipe's run.
        FloatingPointError: if the loss or a weight is no longer finite.
        OSError: for data that is not to be had.

    Example:

    >>> from keras_permix.training import train
    >>> done = train("cspvit/mnist", smoke=True, out="run", verbose=0)
    >>> sorted(done.scores)
    ['generated/test/top1', 'generated/test/top5']
    """
    run = Run(str(recipe), option, tuple(overrides), smoke)
    folder = Path(out or run.folder)
    values = run.values
    model = make_model(values)
    make_optimizer(values, steps_per_epoch=1)  # A wrong name is known before data is read.
    task = task_of(model)
    if smoke:
        dataset = task.generate(SMOKE_SAMPLES, seed=values["seed"])
    else:
        dataset = task.load(values["data"], data_dir, seed=values["seed"])
    model = fit_head(model, values, dataset.labels)
    task_of(model).check_labels(dataset)
    recorder = Recorder(folder, run)
    callbacks = [recorder, *([Estimate()] if verbose else []), *callbacks]
    try:
        rows = fit_recipe(model, values, dataset, folder, verbose, callbacks)
        scores = finish(model, run, dataset, rows, folder, recorder.record)
    finally:
        release_folder(folder)
    return Trained(model, rows, scores, folder)
