"""Define the callbacks of a training run."""

import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import keras
import numpy as np

from keras_permix._typing import StrPath
from keras_permix.ops.backend import running
from keras_permix.recipes.recipe import Recipe
from keras_permix.training.distribute import Distribution
from keras_permix.utils.formatting import counted, duration
from keras_permix.zoo.presets.load import weights_content

SKIPPED = 2  # calls during which the backend compiles
LAST = 22  # call after which the estimate is printed, if the first epoch does not end before


class Progress(keras.callbacks.Callback):
    """Seed each epoch, record the rows of the log, and stop at values that are not finite.

    There is a row per finished epoch, and none for an epoch that another callback cuts short. The
    loss is checked after each batch, the weights after each epoch. `stream` separates the random
    numbers of this process from those of others; it is empty for the first process.

    Raises:
        FloatingPointError: out of `fit`, for a loss or weight that is not finite.
    """

    def __init__(
        self,
        path: StrPath,
        recipe: Recipe,
        rows: Iterable[dict[str, Any]] = (),
        stream: tuple[int, ...] = (),
    ) -> None:
        super().__init__()
        self.path, self.recipe, self.rows, self.stream = Path(path), recipe, list(rows), stream
        # Arguments of `load_weights_content` for the last finished epoch.
        self.saved: list[Any] = []

    @property
    def epoch(self) -> int:
        """Return the number of finished epochs."""
        return len(self.rows)

    @property
    def best(self) -> int | None:
        """Return the epoch of the lowest validation loss, from 1; `None` without early stopping."""
        if not (self.recipe.early_stopping and self.rows):
            return None
        return min(self.rows, key=lambda row: row["val_loss"])["epoch"]

    def is_stopped(self) -> bool:
        """Return whether `early_stopping` epochs have passed without a lower validation loss."""
        patience, best = self.recipe.early_stopping, self.best
        return patience is not None and best is not None and self.epoch - best >= patience

    def keep(self, weights: bytes) -> None:
        """Store the bytes of an epoch's weights file; only the first process does."""

    def on_epoch_begin(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        _seed(self.model, (self.recipe.seed, epoch), self.stream)
        self._started = time.perf_counter()

    def on_train_batch_end(self, batch: int, logs: dict[str, Any] | None = None) -> None:
        # With `steps_per_execution`, the last batch may exceed the steps of the epoch.
        self._is_whole = batch + 1 >= self.params["steps"]
        # `stop_training` would leave a model on JAX that cannot be evaluated.
        loss = float((logs or {}).get("loss", 0.0))
        if not np.isfinite(loss):
            self._stop(f"a loss of {loss} in epoch {self.epoch + 1}, batch {batch + 1}")

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        if not self._is_whole:
            return
        for key, value in (logs or {}).items():
            if not np.isfinite(float(value)):
                self._stop(f"`{key}` of {float(value)} after epoch {epoch + 1}")
        for weight in self.model.weights:
            if not np.isfinite(keras.ops.convert_to_numpy(weight.value).astype("float32")).all():
                self._stop(f"`{weight.path}` with NaN or infinity after epoch {epoch + 1}")
        values = {key: float(f"{float(value):.7g}") for key, value in (logs or {}).items()}
        seconds = round(time.perf_counter() - self._started, 3)
        self.rows.append({"epoch": epoch + 1, **values, "seconds": seconds})
        # All processes take part on JAX, since Keras computes the learning rate when it saves.
        self.keep(weights_content(self.model))
        if self.is_stopped():
            self.model.stop_training = True

    def _stop(self, problem):
        kept = f"Epoch {self.epoch} is saved in {self.path}" if self.epoch else "No epoch is saved"
        rule = f"Loss and weights must be finite; try a smaller `optimizer.learning_rate`. {kept}"
        raise FloatingPointError(f"{rule}. Received: {problem}")


def _seed(model, seed, stream):
    """Seed all random numbers of the coming epoch; only layers differ between processes.

    Keras does not save the state of a layer's seed generator with its weights.
    """
    rng = np.random.default_rng(seed)
    running.seed_again(int(rng.integers(2**31)))
    if stream:
        rng = np.random.default_rng((*seed, *stream))
    for layer in model._flatten_layers():
        for generator in layer._seed_generators:
            generator.state.assign(rng.integers(2**31, size=generator.state.shape))


class Estimate(keras.callbacks.Callback):
    """Print once, after the first steps, how long the remaining steps of `fit` take.

    Place it after `Progress`, which reads the loss of each step, because backends compute
    asynchronously.
    """

    calls, is_printed = 0, False

    def on_epoch_begin(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        self.epoch = epoch
        if self.calls >= SKIPPED:  # The validation of short epochs is not counted.
            self.started, self.first = time.perf_counter(), epoch * self.params["steps"]

    def on_train_batch_end(self, batch: int, logs: dict[str, Any] | None = None) -> None:
        if self.is_printed:
            return
        self.calls += 1  # one per `steps_per_execution` steps
        steps = self.params["steps"]
        done = self.epoch * steps + min(batch + 1, steps)
        if self.calls <= SKIPPED:
            self.started, self.first = time.perf_counter(), done
        elif self.calls == LAST or batch + 1 >= steps:
            self.is_printed = True
            seconds = (time.perf_counter() - self.started) / (done - self.first)
            if left := self.params["epochs"] * steps - done:
                # A progress bar may occupy the current line.
                print(
                    f"\nAbout {duration(left * seconds)} left: {counted(left, 'step')} of "
                    f"{seconds:.3g} s, without compilation, validation and testing.",
                    flush=True,
                )


class Together(keras.callbacks.Callback):
    """Synchronize the devices and processes of a run.

    Random numbers differ between devices. Metrics are summed over processes after the last batch.
    """

    def __init__(self, distribution: Distribution, validation_steps: int) -> None:
        super().__init__()
        self.distribution, self.validation_steps = distribution, validation_steps

    def on_epoch_begin(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        self.distribution.draw_apart(self.model)

    def on_train_batch_end(self, batch: int, logs: dict[str, Any] | None = None) -> None:
        if batch + 1 >= self.params["steps"]:
            self.distribution.sum_metrics(self.model)

    def on_test_batch_end(self, batch: int, logs: dict[str, Any] | None = None) -> None:
        if batch + 1 >= self.validation_steps:
            self.distribution.sum_metrics(self.model)

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        self.distribution.wait()
