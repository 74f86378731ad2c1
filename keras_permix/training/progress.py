"""How far a run has come."""

import time
from collections.abc import Iterable
from typing import Any

import keras
import numpy as np

from keras_permix._typing import Model
from keras_permix.ops.backend import running
from keras_permix.recipes.recipe import Recipe
from keras_permix.zoo.presets.weights import load_weights_content, weights_content


class Progress(keras.callbacks.Callback):
    """The epochs of a run so far, and the random numbers of the coming one.

    Args:
        recipe: The `Recipe`.
        rows: The rows of the log, one per finished epoch.
        stream: What tells random numbers of this process from those of others; none for the first.
    """

    def __init__(
        self,
        recipe: Recipe,
        rows: Iterable[dict[str, Any]] = (),
        stream: tuple[int, ...] = (),
    ) -> None:
        super().__init__()
        self.recipe, self.rows, self.stream = recipe, list(rows), stream
        self.saved: list[Any] | None = None  # what `load_weights_content` takes

    @property
    def best(self) -> int | None:
        """The epoch with the lowest validation loss, from 1, where training stops early."""
        if not (self.recipe.early_stopping and self.rows):
            return None
        return min(self.rows, key=lambda row: row["val_loss"])["epoch"]

    def is_stopped(self) -> bool:
        """Whether `early_stopping` epochs have passed without a lower validation loss."""
        patience, best = self.recipe.early_stopping, self.best
        return patience is not None and best is not None and self.epoch - best >= patience

    def restore_best(self, model: Model) -> None:
        """Give `model` the weights of the best epoch, averaged ones if the recipe averages."""

    @property
    def epoch(self) -> int:
        """Number of finished epochs."""
        return len(self.rows)

    def restore(self, model: Model) -> None:
        """Give `model` the weights and optimizer state of the last finished epoch, if any."""
        if self.saved is not None:
            model.optimizer.build(model.trainable_variables)
            load_weights_content(model, *self.saved)
            self.saved = None

    def on_epoch_begin(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        _seed(self.model, (self.recipe.seed, epoch), self.stream)
        self._started = time.perf_counter()

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        values = {key: round(float(value), 6) for key, value in (logs or {}).items()}
        seconds = round(time.perf_counter() - self._started, 1)
        self.rows.append({"epoch": epoch + 1, **values, "seconds": seconds})
        # On JAX all processes take part: Keras computes the learning rate when it saves.
        self.keep(weights_content(self.model))
        if self.is_stopped():
            self.model.stop_training = True

    def keep(self, weights: bytes) -> None:
        """Keep the bytes of an epoch's weights file, which is the first process's to do."""


def _seed(model, seed, stream):
    """Give all random numbers of the coming epoch a seed of their own.

    Keras does not save the state of a layer's seed generator with its weights. Layers alone differ
    between processes.
    """
    rng = np.random.default_rng(seed)
    running.seed_again(int(rng.integers(2**31)))
    if stream:
        rng = np.random.default_rng((*seed, *stream))
    for layer in model._flatten_layers():
        for generator in layer._seed_generators:
            generator.state.assign(rng.integers(2**31, size=generator.state.shape))
