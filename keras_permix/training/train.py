"""Train by a recipe, from its data to the preset and its card."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

from keras_permix._typing import Model, StrPath
from keras_permix.data.files import data_folder
from keras_permix.ops.backend import running
from keras_permix.tasks import task_of
from keras_permix.training.distribute import Distribution, distributed
from keras_permix.training.estimate import Estimate
from keras_permix.training.finish import finish
from keras_permix.training.fit import fit_recipe
from keras_permix.training.record import Recorder
from keras_permix.training.run import Run, plan_run
from keras_permix.training.run_folder import check_apart, check_installed, check_place
from keras_permix.training.schedules import make_optimizer
from keras_permix.training.start import (
    check_data,
    fit_head,
    fit_scale,
    load_dataset,
    make_model,
    take_assets,
)
from keras_permix.utils.checks import check_integer
from keras_permix.utils.files import release_folder


class Trained(NamedTuple):
    """What `train` gives: the model, the log, the scores of its preset, the folder of the run."""

    model: Model
    rows: list[dict[str, Any]]
    scores: dict[str, float]
    folder: Path


def train(
    recipe: StrPath | Run,
    option: str | None = None,
    *,
    out: StrPath | None = None,
    data_dir: StrPath | None = None,
    smoke: bool = False,
    verbose: int = 1,
    callbacks: Iterable[Any] = (),
    distribute: str | Distribution | None = None,
    steps_per_execution: int = 1,
    workers: int = 1,
    **changes: Any,
) -> Trained:
    """Train a preset from its recipe, or go on with a run that was stopped: `permix train`.

    A recipe may start from a preset's weights (`init`), keep parts of them (`freeze`), and read
    images of one's own (`data`: see `keras_permix.tasks.ImageClassification.load`). Without a
    `num_classes`, the model has as many as the data has labels; without `mean` and `std`, a model
    of numbers takes those of the training targets. A folder of images, or a CSV file that lists
    them, needs no recipe: `train("photos", init="cspvit/cifar10_small", epochs=5)`.

    The folder of the run gets a checkpoint and the log after each epoch, and at the end the
    preset (`preset/`) and its card (`README.md`; none for a smoke run). How long it will take is
    said after the first steps.

    Args:
        recipe: Name (`"cspvit/cifar10_small"`) or path of a recipe, or of images; or a `Run` from
            `plan_run`, with which `option`, `smoke` and `changes` are not given.
        option: One of the recipe's named options.
        out: Folder of the run. `None`: `runs/` and the name of the preset.
        data_dir: Folder with data files.
        smoke: Whether to only try it out: two short epochs of generated data, or of a few images
            of one's own.
        verbose: Progress of `fit`: 0 silent, 1 a bar, 2 a line per epoch.
        callbacks: More Keras callbacks for `fit`, which the card names. A run that one of them
            stops early goes on when it is started again.
        distribute: What is divided among several devices or processes: "data", each batch;
            "model", the weights (on JAX); "auto", "data" where there are several; or what
            `keras_permix.training.distribute.distributed` gives. `None`: one device works alone.
            The first process alone writes.
        steps_per_execution: Steps between two looks at the loss: on a TPU or GPU, some 10 to 100
            keep it busy. 1 on PyTorch, and in several processes of TensorFlow.
        workers: Threads that make batches; more than one make the next while a step computes. No
            number of the run depends on them.
        **changes: New values of the recipe: `epochs=2`, `model={"hidden_dim": 64}`.

    Returns:
        A `Trained`: `model`, `rows`, `scores`, `folder`.

    Raises:
        ValueError: for an unknown recipe, option or value, a folder with the run of another
            recipe or of other data, or one with files of something else that a run would
            overwrite, or within the images that it is trained on.
        FloatingPointError: if the loss or a weight is no longer finite.
        OSError: for data that is not to be had.
        ConnectionError: if another process of the run has ended.

    Example:

    >>> from keras_permix.training import train
    >>> done = train("cspvit/mnist", smoke=True, out="run", verbose=0)
    >>> sorted(done.scores)
    ['generated/test/top1', 'generated/test/top5']
    """
    if check_integer("steps_per_execution", steps_per_execution) > 1 and not running.fuses_steps():
        raise ValueError(
            "`steps_per_execution` must be 1 on PyTorch. "
            f"Received: steps_per_execution={steps_per_execution}"
        )
    check_integer("workers", workers)
    run = recipe if isinstance(recipe, Run) else plan_run(recipe, option, smoke, **changes)
    folder, values = Path(out or run.folder), run.recipe
    check_installed()
    check_data(values)
    check_place(folder)
    check_apart(folder, values.data, data_dir)
    with distributed(distribute) as distribution:
        distribution.check_batch_size(values.batch_size)
        distribution.check_steps(steps_per_execution)
        with distribution.scope():
            model = make_model(values)
        # What is wrong is known before data are read, or downloaded.
        make_optimizer(values, steps_per_epoch=1)
        task_of(model).preparation(values.augmentation, values.seed)
        if data_dir is not None:
            data_folder(data_dir)
        if not run.smoke:
            take_assets(model, folder)
        dataset = load_dataset(task_of(model), values, data_dir, run.smoke)
        with distribution.scope():
            model = fit_head(fit_scale(model, values, dataset), values, dataset.labels)
        task_of(model).check_labels(dataset)
        callbacks = list(callbacks)
        recorder = Recorder(folder, run, callbacks)
        if distribution.is_chief:
            callbacks = [recorder, *([Estimate()] if verbose else []), *callbacks]
        try:
            rows = fit_recipe(
                model, values, dataset, folder, verbose, callbacks,
                distribution, steps_per_execution, workers,
            )  # fmt: skip
            scores = distribution.from_chief(
                finish, model, run, dataset, rows, folder, recorder.record
            )
        finally:
            release_folder(folder)
    return Trained(model, rows, scores, folder)
