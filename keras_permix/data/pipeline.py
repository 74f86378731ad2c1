"""Batches for `fit`, the same for the same seed, epoch and position."""

from collections.abc import Callable
from typing import Any, TypeAlias

import keras
import numpy as np

# From inputs and targets of a batch, the epoch and the index of the batch to inputs and targets.
Augment: TypeAlias = Callable[[Any, Any, int, int], tuple[Any, Any]]


class Pipeline(keras.utils.PyDataset):
    """Batches of inputs and targets, shuffled and augmented anew each epoch.

    Order and augmentation depend on nothing but seed, epoch and index of the batch: a run resumed
    with `epoch=k` sees the batches it would have seen, on every backend and with any number of
    workers. `epoch` counts up whenever Keras ends an epoch. Keras also does so once before the
    first epoch of a `fit`, which thus sees the batches of `epoch + 1`: a resumed one alike.

    Args:
        inputs: Array `(samples, …)`, a dict of such arrays, anything with `len` and `[index]` that
            gives arrays of one shape, or a source: anything with `len` and
            `read(indices, epoch, index)` that gives `(inputs, targets)` of a batch, such as
            `RecordSource`.
        targets: Array `(samples, …)`; `None` with a source, which has its own.
        batch_size: Samples in a batch.
        num_classes: Where targets are classes, their number: they become int32 and are checked.
        shuffle: Whether to draw a new order each epoch.
        seed: Integer ≥ 0, of the order.
        augment: `None`, or a function `(inputs, targets, epoch, index) -> (inputs, targets)` of a
            batch and its place, such as `make_augmentation` gives.
        drop_remainder: Whether to leave out a last batch that is not full.
        epoch: The epoch to start with.
        **kwargs: `workers`, `use_multiprocessing`, `max_queue_size` of `keras.utils.PyDataset`.

    Returns:
        Each item is `(inputs, targets)`, as they came or as `augment` gives them.

    Raises:
        ValueError: if sizes do not fit, or an argument is out of range.

    Example:

    >>> import numpy as np
    >>> from keras_permix.data import Pipeline
    >>> x = np.zeros((100, 32, 32, 3), "uint8")
    >>> batches = Pipeline(x, np.zeros(100), batch_size=32, num_classes=10, shuffle=True)
    >>> batches[0][0].shape
    (32, 32, 32, 3)
    """

    def __init__(
        self,
        inputs: Any,
        targets: Any = None,
        *,
        batch_size: int,
        num_classes: int | None = None,
        shuffle: bool = False,
        seed: int = 0,
        augment: Augment | None = None,
        drop_remainder: bool = False,
        epoch: int = 0,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        _check_sizes(inputs, batch_size, drop_remainder)
        if not hasattr(inputs, "read"):
            targets = _checked_targets(inputs, targets, num_classes)
        if seed < 0 or epoch < 0:
            raise ValueError(
                f"`seed` and `epoch` must be 0 or more. Received: seed={seed}, epoch={epoch}"
            )
        self.inputs, self.targets = inputs, targets
        self.batch_size = batch_size
        self.shuffle, self.seed = shuffle, seed
        self.augment = augment
        self.drop_remainder = drop_remainder
        self.epoch = epoch

    @property
    def epoch(self) -> int:
        """The epoch whose batches `self[index]` gives."""
        return self._epoch

    @epoch.setter
    def epoch(self, epoch: int) -> None:
        self._epoch = epoch
        count = _count(self.inputs)
        rng = np.random.default_rng((self.seed, epoch))
        self._order = rng.permutation(count) if self.shuffle else np.arange(count)

    def on_epoch_end(self) -> None:
        self.epoch += 1

    def __len__(self) -> int:
        full, rest = divmod(_count(self.inputs), self.batch_size)
        return full + (rest > 0 and not self.drop_remainder)

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        start = index * self.batch_size
        chosen = self._order[start : start + self.batch_size]
        inputs, targets = self._read(chosen, index)
        if self.augment is None:
            return inputs, targets
        return self.augment(inputs, targets, self.epoch, index)

    def _read(self, chosen, index):
        if hasattr(self.inputs, "read"):
            return self.inputs.read(chosen, self.epoch, index)
        return _take(self.inputs, chosen), self.targets[chosen]


def _count(inputs):
    return len(next(iter(inputs.values()))) if isinstance(inputs, dict) else len(inputs)


def _take(inputs, chosen):
    if isinstance(inputs, dict):
        return {name: array[chosen] for name, array in inputs.items()}
    if isinstance(inputs, np.ndarray):
        return inputs[chosen]
    return np.stack([inputs[int(i)] for i in chosen])


def _check_sizes(inputs, batch_size, drop_remainder):
    least = batch_size if drop_remainder else 1
    if batch_size < 1 or _count(inputs) < least:
        raise ValueError(
            "`batch_size` must be 1 or more, and `inputs` must fill at least one batch. "
            f"Received: batch_size={batch_size}, {_count(inputs)} inputs, "
            f"drop_remainder={drop_remainder}"
        )


def _checked_targets(inputs, targets, num_classes):
    targets = np.asarray(targets)
    if num_classes is not None:
        targets = targets.astype("int32").reshape(-1)
    if _count(inputs) != len(targets):
        raise ValueError(
            "`inputs` and `targets` must be of one length. "
            f"Received: {_count(inputs)} inputs, {len(targets)} targets"
        )
    if num_classes is not None and (targets.min() < 0 or targets.max() >= num_classes):
        raise ValueError(
            "`targets` must be from 0 to `num_classes - 1`. Received: targets from "
            f"{targets.min()} to {targets.max()}, num_classes={num_classes}"
        )
    return targets
