"""Train a model by a recipe's values."""

from collections.abc import Iterable
from typing import Any

import keras

from keras_permix._typing import Model, StrPath
from keras_permix.data import Dataset
from keras_permix.data.dataset import first
from keras_permix.tasks import task_of
from keras_permix.training.finite import StopWhereNotFinite
from keras_permix.training.run_folder import RunFolder
from keras_permix.training.schedules import make_optimizer


def fit_recipe(
    model: Model,
    recipe: dict[str, Any],
    dataset: Dataset,
    out: StrPath,
    verbose: int = 1,
    callbacks: Iterable[Any] = (),
) -> list[dict[str, Any]]:
    """Train a model by a recipe, from where the folder `out` left off.

    The folder stays this process's, so that what follows can be written there; let others have it
    by `safe_files.release_folder`.

    Args:
        model: The recipe's model, from `make_model` and `fit_head`.
        recipe: A dict as `load_recipe` gives it.
        dataset: The `keras_permix.data.Dataset` to train and test on.
        out: Folder of the run.
        verbose: Progress of `fit`: 0 silent, 1 a bar, 2 a line per epoch.
        callbacks: More Keras callbacks for `fit`.

    Returns:
        The rows of the log, one per epoch.

    Raises:
        ValueError: if the folder holds a run of another recipe.
        FloatingPointError: if loss or weights are no longer finite; the folder keeps the last
            epoch in which they were.
    """
    folder = RunFolder(out, recipe)
    _fit(model, recipe, dataset, folder, verbose, callbacks)
    return folder.rows


def _fit(model, recipe, dataset, folder, verbose, callbacks):
    task = task_of(model)
    size, seed = recipe["batch_size"], recipe["seed"]
    training = task.batches(
        dataset.train, size, training=True, seed=seed, epoch=folder.epoch,
        augmentation=recipe["augmentation"],
    )  # fmt: skip
    model.compile(
        optimizer=make_optimizer(recipe, len(training)),
        loss=task.loss(recipe["label_smoothing"]),
        metrics=task.metrics(),
    )
    folder.restore(model)
    callbacks = [StopWhereNotFinite(folder.path), folder, *callbacks]
    if recipe["ema"] is not None:
        callbacks.append(keras.callbacks.SwapEMAWeights())
    model.fit(
        training,
        validation_data=task.batches(first(dataset.test, recipe["validation_samples"]), size),
        initial_epoch=folder.epoch,
        epochs=recipe["epochs"],
        callbacks=callbacks,
        verbose=verbose,
    )
