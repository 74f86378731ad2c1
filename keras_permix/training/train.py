"""Train by a recipe, from its data to the preset and its card."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

from keras_permix._typing import Model, StrPath
from keras_permix.safe_files import release_folder
from keras_permix.tasks import task_of
from keras_permix.training.estimate import Estimate
from keras_permix.training.finish import finish
from keras_permix.training.fit import fit_recipe
from keras_permix.training.record import Recorder
from keras_permix.training.run import Run
from keras_permix.training.schedules import make_optimizer
from keras_permix.training.start import fit_head, make_model

SMOKE_SAMPLES = 32


class Trained(NamedTuple):
    """What `train` gives: the model, the log, the scores of its preset, the folder of the run."""

    model: Model
    rows: list[dict[str, Any]]
    scores: dict[str, float]
    folder: Path


def train(
    recipe: StrPath,
    option: str | None = None,
    overrides: Iterable[str] = (),
    *,
    out: StrPath | None = None,
    data_dir: StrPath | None = None,
    smoke: bool = False,
    verbose: int = 1,
    callbacks: Iterable[Any] = (),
) -> Trained:
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
