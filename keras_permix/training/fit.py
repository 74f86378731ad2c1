"""Train a model by a recipe's values."""

import math
from collections.abc import Iterable
from typing import Any

import keras
import numpy as np

from keras_permix._typing import Model, StrPath
from keras_permix.data import Dataset
from keras_permix.data.dataset import fingerprint, labels_of, size_of, some
from keras_permix.recipes.recipe import Recipe
from keras_permix.tasks import task_of
from keras_permix.training.distribute import Distribution
from keras_permix.training.finite import StopWhereNotFinite
from keras_permix.training.progress import Progress
from keras_permix.training.run_folder import RunFolder
from keras_permix.training.schedules import make_optimizer
from keras_permix.utils.formatting import counted


def fit_recipe(
    model: Model,
    recipe: Recipe,
    dataset: Dataset,
    out: StrPath,
    verbose: int = 1,
    callbacks: Iterable[Any] = (),
    distribution: Distribution | None = None,
    steps_per_execution: int = 1,
    workers: int = 1,
) -> list[dict[str, Any]]:
    """Train a model by a recipe, from where the folder `out` left off.

    The folder stays this process's, so that what follows can be written there; let others have it
    by `utils.files.release_folder`.

    Args:
        model: The recipe's model, from `make_model` and `fit_head`.
        recipe: The `Recipe`.
        dataset: The `keras_permix.data.Dataset` to train and test on.
        out: Folder of the run.
        verbose: Progress of `fit`: 0 silent, 1 a bar, 2 a line per epoch.
        callbacks: More Keras callbacks for `fit`.
        distribution: The devices and processes that share the work, from `distributed`, in whose
            `scope` the model was made.
        steps_per_execution: Steps between two looks at the loss, as `compile` takes it.
        workers: Threads that make batches; more than one make the next while a step computes.

    Returns:
        The rows of the log, one per epoch.

    Raises:
        ValueError: if the folder holds a run of another recipe or of other data.
        FloatingPointError: if loss or weights are no longer finite; the folder keeps the last
            epoch in which they were.
        ConnectionError: if another process has stopped.

    Example:

    >>> from keras_permix.tasks import task_of
    >>> from keras_permix.training import fit_recipe, load_recipe, make_model
    >>> recipe = load_recipe("cspvit/mnist", epochs=1, batch_size=8, model={"num_layers": 1})
    >>> model = make_model(recipe)
    >>> rows = fit_recipe(model, recipe, task_of(model).generate(8), "run", verbose=0)
    >>> [row["epoch"] for row in rows]
    [1]
    """
    distribution = distribution or Distribution()
    verbose = verbose if distribution.is_chief else 0
    task = task_of(model)
    size, seed = recipe.batch_size, recipe.seed
    distribution.check_steps(steps_per_execution)
    # What is wrong with the recipe is found here, before there is a folder.
    loss = task.loss(recipe.label_smoothing)
    training = task.batches(
        dataset.train, size, training=True, seed=seed,
        steps=recipe.steps_per_epoch, augmentation=recipe.augmentation,
    )  # fmt: skip
    if recipe.early_stopping and (dataset.validation is None or distribution.count > 1):
        raise ValueError(
            "`early_stopping` must be left out without a validation part, since it would choose an "
            "epoch by the test set, and with several processes. Hold out a part by "
            "`data.validation`. "
            f"Received: early_stopping={recipe.early_stopping} for {dataset.name}"
        )
    class_weight = balanced_weights(dataset, task) if recipe.class_weight else None
    watched = dataset.validation or dataset.test
    validation = task.batches(_shared_evenly(watched, recipe, distribution), size)
    progress = _begin(out, recipe, dataset, distribution)
    if verbose:
        print(described(dataset, size, recipe.steps_per_epoch, task.num_classes), flush=True)
        epochs = counted(recipe.epochs, "epoch")
        done = f"goes on after epoch {progress.epoch} of" if progress.epoch else "takes"
        print(f"{out}: {done} {epochs}; after a kill, start it again", flush=True)
    training.epoch = progress.epoch
    for batches in (training, validation):
        batches.shard, batches.threads = distribution.shard, workers
    callbacks = [StopWhereNotFinite(out), progress, Together(distribution), *callbacks]
    if recipe.ema is not None:
        callbacks.append(keras.callbacks.SwapEMAWeights())
    with distribution.scope():
        model.compile(
            optimizer=make_optimizer(recipe, len(training)),
            loss=loss,
            metrics=task.metrics(),
            steps_per_execution=steps_per_execution,
        )
        progress.restore(model)
        distribution.prepare(model)
        if progress.is_stopped():
            progress.restore_best(model)
            return progress.rows
        model.fit(
            training,
            validation_data=validation,
            shuffle=False,  # which the pipeline has done
            initial_epoch=progress.epoch,
            epochs=recipe.epochs,
            callbacks=callbacks,
            verbose=verbose,
            class_weight=class_weight,
        )
    if recipe.early_stopping:
        progress.restore_best(model)
    return progress.rows


def balanced_weights(dataset: Dataset, task: Any) -> dict[int, float]:
    """Weight each class by the inverse of its frequency among the training samples.

    Weights average to one per sample, as scikit-learn's "balanced" ones do.

    Raises:
        ValueError: for a task without classes, or labels that are known only when samples are read.
    """
    labels = labels_of(dataset.train)
    if task.num_classes is None or labels is None:
        raise ValueError(
            "`class_weight` must be left out for targets that are not classes, and for data whose "
            f"labels are known only when they are read. Received: {dataset.name}"
        )
    counts = np.bincount(labels, minlength=task.num_classes)
    weights = len(labels) / (np.count_nonzero(counts) * np.maximum(counts, 1))
    return dict(enumerate(weights.tolist()))


def described(
    dataset: Dataset, batch_size: int, steps_per_epoch: int | None, num_classes: int | None
) -> str:
    """What a run trains on, in words: one line.

    Example:

    >>> import numpy as np
    >>> from keras_permix.data import Dataset
    >>> x, y = np.zeros((38, 8, 8, 3), "uint8"), np.arange(38) % 2
    >>> pets = Dataset("pets", (x, y), (x[:6], y[:6]), ("cat", "dog"))
    >>> described(pets, 16, None, 2)
    'pets: 38 samples, 6 to test on, 2 classes; 2 steps of 16 in an epoch, which leave 6 others out'
    """
    count, size, steps = size_of(dataset.train[0]), batch_size, steps_per_epoch
    names = f", {len(dataset.labels):,} classes" if num_classes else ""
    watched = "" if dataset.validation is None else f"{size_of(dataset.validation[0]):,} to watch, "
    left_out = 0 if steps else count % size
    more = f", which leave {left_out:,} others out" if left_out else ""
    tested = f"{watched}{size_of(dataset.test[0]):,} to test on"
    return (
        f"{dataset.name}: {counted(count, 'sample')}, {tested}{names}; "
        f"{counted(steps or count // size, 'step')} of {size:,} in an epoch{more}"
    )


class Together(keras.callbacks.Callback):
    """Devices draw for themselves; after each epoch, processes wait for the first to save it."""

    def __init__(self, distribution: Distribution) -> None:
        super().__init__()
        self.distribution = distribution

    def on_epoch_begin(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        self.distribution.draw_apart(self.model)

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        self.distribution.wait()


def _begin(out, recipe, dataset, distribution):
    """The chief's `RunFolder`, and what the other processes hear of it."""
    opened = []

    def open_folder():
        opened.append(RunFolder(out, recipe, fingerprint(dataset)))
        return opened[0].rows

    rows = distribution.from_chief(open_folder)
    progress = opened[0] if opened else Progress(recipe, rows, distribution.stream)
    if rows:
        content, *path = progress.saved or (b"", out)
        progress.saved = [distribution.broadcast(content), *path]
    return progress


def _shared_evenly(part, recipe, distribution):
    """As many samples to validate on as leave no device with less than another."""
    count = min(recipe.validation_samples or math.inf, size_of(part[0]))
    if count < distribution.parts:
        raise ValueError(
            "There must be as many samples to validate on as devices that share a batch, or more. "
            f"Received: {count} for {distribution.parts}"
        )
    return some(part, count - count % distribution.parts)
