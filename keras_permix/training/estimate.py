"""How long a run will take, said after its first steps, and anew after its first epoch."""

import operator
import statistics
import time
from typing import Any

import keras

from keras_permix.utils.formatting import counted, duration

SKIPPED = 2  # looks at the loss in which the backend compiles
MEASURED = 20  # looks, or what the first epoch has


class Estimate(keras.callbacks.Callback):
    """Print how long the rest of `fit` will take.

    Once by the first steps, which are all that it counts; and once when the second epoch begins, by
    the first, with its validation and the time to keep it. It comes after a callback that waits for
    the loss of each step, as `StopWhereNotFinite` does: backends compute while Python goes on.
    """

    def __init__(self) -> None:
        super().__init__()
        self._looks, self._said = 0, False
        self._is_first, self._is_second = True, False
        self._tested: list[float] = []  # when each batch of the first validation was done

    def on_epoch_begin(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        self._epoch = epoch
        left, tested = self.params["epochs"] - epoch, self._tested
        if self._is_second and self._said and len(tested) > 2:
            # The first batch was compiled for, and a last one that is shorter.
            usual = statistics.median_low(map(operator.sub, tested[1:], tested))
            kept = time.perf_counter() - tested[-1]
            seconds = self.params["steps"] * self._seconds + usual * len(tested) + kept
            print(describe_epochs(left, seconds), flush=True)
        self._is_second = False

    def on_train_batch_end(self, batch: int, logs: dict[str, Any] | None = None) -> None:
        self._looks += 1  # one for several steps, where `compile` was told so
        step = self._epoch * self.params["steps"] + batch
        if self._looks <= SKIPPED:
            self._started, self._first = time.perf_counter(), step
            return
        self._seconds = (time.perf_counter() - self._started) / (step - self._first)
        last = batch + 1 == self.params["steps"]
        if not self._said and (last or self._looks == SKIPPED + MEASURED):
            epochs_left = self.params["epochs"] - self._epoch
            left = epochs_left * self.params["steps"] - (batch + 1)
            if left:  # A new line, since a progress bar may stand in this one.
                print(f"\n{describe(left, self._seconds)}", flush=True)
            self._said = True

    def on_test_batch_end(self, batch: int, logs: dict[str, Any] | None = None) -> None:
        if self._is_first:
            for value in (logs or {}).values():
                keras.ops.convert_to_numpy(value)  # which waits for it
            self._tested.append(time.perf_counter())

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        self._is_first, self._is_second = False, self._is_first


def describe(steps: int, seconds: float) -> str:
    """The rest of a run in words, by its steps.

    Example:

    >>> from keras_permix.training.estimate import describe
    >>> describe(11_700, 0.65)
    'About 2 h 7 min to come: 11,700 steps of 0.65 s; to compile, validate and test is not counted.'
    """
    return (
        f"About {duration(steps * seconds)} to come: {counted(steps, 'step')} of {seconds:.3g} s; "
        "to compile, validate and test is not counted."
    )


def describe_epochs(epochs: int, seconds: float) -> str:
    """The rest of a run in words, by its epochs.

    Example:

    >>> from keras_permix.training.estimate import describe_epochs
    >>> describe_epochs(9, 290)
    'About 44 min to come: 9 epochs of 4 min 50 s, and then the test.'
    """
    return (
        f"About {duration(epochs * seconds)} to come: {counted(epochs, 'epoch')} of "
        f"{duration(seconds)}, and then the test."
    )
