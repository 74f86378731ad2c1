"""How long a run will take, said after its first steps."""

import time
from typing import Any

import keras

SKIPPED = 2  # looks at the loss in which the backend compiles
MEASURED = 20  # looks, or what the first epoch has


class Estimate(keras.callbacks.Callback):
    """Print once how long the rest of `fit` will take.

    It comes after a callback that waits for the loss of each step, as `StopWhereNotFinite` does:
    backends compute while Python goes on.
    """

    def __init__(self) -> None:
        super().__init__()
        self._looks, self._said = 0, False

    def on_epoch_begin(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        self._epoch = epoch

    def on_train_batch_end(self, batch: int, logs: dict[str, Any] | None = None) -> None:
        self._looks += 1  # one for several steps, where `compile` was told so
        step = self._epoch * self.params["steps"] + batch
        if self._looks <= SKIPPED:
            self._started, self._first = time.perf_counter(), step
        last = batch + 1 == self.params["steps"] and self._looks > SKIPPED
        if not self._said and (last or self._looks == SKIPPED + MEASURED):
            seconds = (time.perf_counter() - self._started) / (step - self._first)
            epochs_left = self.params["epochs"] - self._epoch
            left = epochs_left * self.params["steps"] - (batch + 1)
            if left:  # A new line, since a progress bar may stand in this one.
                print(f"\n{describe(left, seconds)}", flush=True)
            self._said = True


def describe(steps: int, seconds: float) -> str:
    """The rest of a run in words.

    Example:

    >>> from keras_permix.training.estimate import describe
    >>> describe(11_700, 0.65)
    'About 2 h 6 min to come: 11,700 steps of 0.65 s, validation not counted.'
    """
    minutes, rest = divmod(round(steps * seconds), 60)
    hours, minutes = divmod(minutes, 60)
    words = f"{hours} h {minutes} min" if hours else f"{minutes} min" if minutes else f"{rest} s"
    return f"About {words} to come: {steps:,} steps of {seconds:.3g} s, validation not counted."
