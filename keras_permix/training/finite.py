"""Training stops where it has turned to NaN."""

import keras
import numpy as np


class StopWhereNotFinite(keras.callbacks.Callback):
    """Stop `fit` as soon as the loss is not finite, and before such weights are recorded.

    It comes before callbacks that save. The loss is looked at after each batch, without making the
    device wait; the weights after each epoch.

    Args:
        folder: The run folder, for the message.

    Raises:
        FloatingPointError: out of `fit`.
    """

    async_safe = True

    def __init__(self, folder):
        super().__init__()
        self.folder = folder
        self.problem = None

    def on_epoch_begin(self, epoch, logs=None):
        self.epoch = epoch

    def on_train_batch_end(self, batch, logs=None):
        loss = (logs or {}).get("loss", 0.0)
        if self.problem is None and not np.isfinite(loss):
            self.problem = f"a loss of {float(loss)} in epoch {self.epoch + 1}, batch {batch + 1}"
            self.model.stop_training = True

    def on_test_begin(self, logs=None):
        self._raise_problem()

    def on_epoch_end(self, epoch, logs=None):
        self._raise_problem()
        for weight in self.model.weights:
            if not np.isfinite(keras.ops.convert_to_numpy(weight).astype("float32")).all():
                self.problem = f"`{weight.path}` with NaN or infinity after epoch {epoch + 1}"
        self._raise_problem()

    def _raise_problem(self):
        if self.problem is None:
            return
        if self.epoch:
            kept = f"Epoch {self.epoch}, the last good one, is kept in {self.folder}. "
        else:
            kept = "No epoch was finished. "
        raise FloatingPointError(
            "Training must keep loss and weights finite, and was stopped where it did not. "
            f"{kept}Train in another folder with a smaller `optimizer.learning_rate`, a longer "
            f"warm-up, or another `precision`. Received: {self.problem}"
        )
