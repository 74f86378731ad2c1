"""Fit a model to a data set by the values of a recipe."""

import math
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import keras
import numpy as np

from keras_permix._typing import Model, StrPath
from keras_permix.data import Dataset
from keras_permix.data.dataset import fingerprint, labels_of, size_of, some
from keras_permix.recipes.recipe import Recipe
from keras_permix.tasks import task_of
from keras_permix.training.callbacks import Progress, Together
from keras_permix.training.checkpoints import read_weights
from keras_permix.training.distribute import Distribution
from keras_permix.training.optimizers import make_optimizer
from keras_permix.training.run_folder import RunFolder
from keras_permix.utils.formatting import counted
from keras_permix.zoo.presets.load import load_weights_content, weights_content


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
    """Train a model by a recipe, and resume the run in the folder `out`.

    The folder stays locked for this process afterwards; `utils.files.release_folder` releases it.

    Args:
        model: The recipe's model, from `make_model` and `fit_outputs`.
        recipe: The `Recipe`.
        dataset: A `keras_permix.data.Dataset`.
        out: Folder of the run.
        verbose: 0 is silent, 1 shows a progress bar, 2 prints a line per epoch. Defaults to 1.
        callbacks: Additional Keras callbacks. Defaults to none.
        distribution: A `Distribution` from `distributed`; make the model in its `scope`. Defaults
            to `None`, one device.
        steps_per_execution: As for `train`. Defaults to 1.
        workers: As for `train`. Defaults to 1.

    Returns:
        A list of dicts, one row of the log per epoch.

    Raises:
        ValueError: if the folder holds a run of another recipe or other data, or the model has
            LoRA.
        FloatingPointError: if the loss or a weight is not finite. The folder keeps the last epoch
            with finite values.
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
    if any(getattr(layer, "lora_enabled", False) for layer in model._flatten_layers()):
        raise ValueError(f"Keras' checkpoints lose LoRA; use `fit`. Received: {model.name}")
    task = task_of(model)
    size, seed = recipe.batch_size, recipe.seed
    distribution.check(size, steps_per_execution)
    # Errors in the recipe are raised here, before a folder is made.
    loss = task.loss(recipe.label_smoothing)
    training = task.batches(
        dataset.train, size, training=True, seed=seed,
        steps=recipe.steps_per_epoch, augmentation=recipe.augmentation,
    )  # fmt: skip
    if recipe.early_stopping and (dataset.validation is None or distribution.count > 1):
        rule = "`early_stopping` requires `data.validation` and a single process"
        raise ValueError(f"{rule}. Received: early_stopping={recipe.early_stopping}")
    class_weight = None
    if recipe.class_weight:
        class_weight = balanced_weights(dataset, task)
        if any((recipe.augmentation or {}).get(mix) for mix in ("mixup", "cutmix")):
            rule = "`class_weight` requires `mixup` and `cutmix` to be unset"
            raise ValueError(f"{rule}. Received: augmentation={recipe.augmentation}")
    watched = dataset.validation or dataset.test
    count = min(recipe.validation_samples or math.inf, size_of(watched[0]))
    if count < distribution.parts:
        rule = "Validation must have a sample per device"
        raise ValueError(f"{rule}. Received: {count} samples, {distribution.parts} devices")
    count -= count % distribution.parts  # a number that the devices share evenly
    validation = task.batches(some(watched, count), size)
    progress = _begin(out, recipe, dataset, distribution)
    if verbose:
        print(described(dataset, size, recipe.steps_per_epoch, task.predicts), flush=True)
        done = f"resumes after epoch {progress.epoch} of" if progress.epoch else "trains for"
        done = f"{done} {counted(recipe.epochs, 'epoch')}"
        print(f"{out}: {done}; to resume after an interruption, run the same command", flush=True)
    training.epoch = progress.epoch
    for batches in (training, validation):
        batches.shard, batches.threads = distribution.shard, workers
    together = Together(distribution, len(validation))
    callbacks = [progress, together, *callbacks]
    if recipe.ema is not None:
        callbacks.append(keras.callbacks.SwapEMAWeights())
    with distribution.scope():
        model.compile(
            optimizer=make_optimizer(recipe, len(training)),
            loss=loss,
            metrics=task.metrics(),
            steps_per_execution=steps_per_execution,
        )
        model.optimizer.build(model.trainable_variables)
        if distribution.count > 1:
            # On JAX, every process takes part whenever one saves or loads weights.
            content = b"" if progress.epoch else weights_content(model)
            content, name = progress.saved or (content, "the weights of the first process")
            progress.saved[:] = distribution.broadcast(content), name
        if progress.saved:
            load_weights_content(model, *progress.saved)
            progress.saved.clear()
        optimizer = model.optimizer
        distribution.prepare(model)
        try:
            if not progress.is_stopped():
                model.fit(
                    training,
                    validation_data=validation,
                    shuffle=False,  # The pipeline shuffles.
                    initial_epoch=progress.epoch,
                    epochs=recipe.epochs,
                    callbacks=callbacks,
                    verbose=verbose,
                    class_weight=class_weight,
                )
        finally:
            if model.optimizer is not optimizer:  # Later calls of `fit` must not wait.
                model.optimizer, model.train_function = optimizer, None
    if best := progress.best:
        load_weights_content(model, *read_weights(Path(out, "checkpoints"), best))
        if recipe.ema is not None:
            model.optimizer.finalize_variable_values(model.trainable_variables)
    return progress.rows


def balanced_weights(dataset: Dataset, task: Any) -> dict[int, float]:
    """Weight each class by the inverse of its frequency among the training samples.

    The weights average to one per sample, like scikit-learn's "balanced" weights.
    """
    if task.num_classes is None:
        raise ValueError(f"`class_weight` requires one class per sample. Received: {task.name}")
    labels = labels_of(dataset.train)
    if labels is None:
        rule = "`class_weight` requires labels known in advance"
        raise ValueError(f"{rule}. Received: {dataset.name}")
    counts = np.bincount(labels, minlength=task.num_classes)
    weights = len(labels) / (np.count_nonzero(counts) * np.maximum(counts, 1))
    return dict(enumerate(weights.tolist()))


def described(
    dataset: Dataset, batch_size: int, steps_per_epoch: int | None, predicts: str = "class"
) -> str:
    """Describe the data of a run in one line."""
    count, kinds = size_of(dataset.train[0]), len(dataset.labels)
    parts = [counted(count, "sample"), counted(size_of(dataset.test[0]), "test sample")]
    if dataset.validation is not None:
        parts.insert(1, f"{size_of(dataset.validation[0]):,} validation")
    parts.append(f"{kinds:,} classes" if predicts == "class" else counted(kinds, predicts[:-1]))
    steps = counted(steps_per_epoch or count // batch_size, "step")
    left_out = 0 if steps_per_epoch else count % batch_size
    more = f", {counted(left_out, 'sample')} unused" if left_out else ""
    return f"{dataset.name}: {', '.join(parts)}; {steps} of {batch_size:,} per epoch{more}"


def _begin(out, recipe, dataset, distribution):
    """Open the run in the first process, and send its rows to the others."""
    opened = []

    def open_folder():
        opened.append(RunFolder(out, recipe, fingerprint(dataset)))
        return opened[0].rows

    rows = distribution.from_chief(open_folder)
    return opened[0] if opened else Progress(out, recipe, rows, distribution.stream)
