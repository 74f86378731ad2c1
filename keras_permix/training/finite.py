"""Training stops where it has turned to NaN."""

from typing import Any

import keras
import numpy as np

from keras_permix._typing import StrPath


class StopWhereNotFinite(keras.callbacks.Callback):
    """Stop `fit` as soon as the loss is not finite, and before such weights are recorded.

    It comes before callbacks that save. The loss is looked at after each batch, the weights after
    each epoch.

    Args:
        folder: The run folder, for the message.

    Raises:
        FloatingPointError: out of `fit`.
    """

    def __init__(self, folder: StrPath) -> None:
        super().__init__()
        self.folder = folder

    def on_epoch_begin(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        self.epoch = epoch

    def on_train_batch_end(self, batch: int, logs: dict[str, Any] | None = None) -> None:
        # Raised here: a model on JAX that leaves an epoch by `stop_training` cannot be evaluated.
        loss = float((logs or {}).get("loss", 0.0))
        if not np.isfinite(loss):
            self._stop(f"a loss of {loss} in epoch {self.epoch + 1}, batch {batch + 1}")

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        for key, value in (logs or {}).items():
            if not np.isfinite(float(value)):
                self._stop(f"`{key}` of {float(value)} after epoch {epoch + 1}")
        for weight in self.model.weights:
            if not np.isfinite(keras.ops.convert_to_numpy(weight).astype("float32")).all():
                self._stop(f"`{weight.path}` with NaN or infinity after epoch {epoch + 1}")

    def _stop(self, problem):
        if self.epoch:
            kept = f"Epoch {self.epoch}, the last good one, is kept in {self.folder}. "
        else:
            kept = "No epoch was finished. "
        raise FloatingPointError(
            "Training must keep loss and weights finite, and was stopped where it did not. "
            f"{kept}Train in another folder with a smaller `optimizer.learning_rate`, a longer "
            f"warm-up, or another `precision`. Received: {problem}"
        )
