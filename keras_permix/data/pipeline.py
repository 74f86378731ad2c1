"""Batches for `fit`, the same for the same seed, epoch and position."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeAlias

import keras
import numpy as np

from keras_permix.data.dataset import size_of
from keras_permix.ops.backend import running
from keras_permix.utils.checks import check_integer, check_positive_or_none

# From inputs and targets of a batch, the epoch and the index of the batch to inputs and targets.
Augment: TypeAlias = Callable[[Any, Any, int, int], tuple[Any, Any]]


class Pipeline(keras.utils.PyDataset):
    """Batches of inputs and targets, shuffled and augmented anew each epoch.

    Order and augmentation depend on nothing but seed, epoch and index of the batch: a run resumed
    with `epoch=k` sees the batches it would have seen, on every backend and with any number of
    `threads`. `epoch` counts up whenever Keras ends an epoch. Keras also does so once before the
    first epoch of a `fit`, which thus sees the batches of `epoch + 1`: a resumed one alike.

    `fit(…, shuffle=False)` takes the batches in their order. Without it Keras takes them in one of
    its own, which a resumed run does not repeat, and of which `threads` cannot know what is next.

    On TensorFlow all batches of a source are padded to one shape, since Keras takes the shapes of
    all from the first two.

    Of several processes that share each batch, each gives the pipeline its `shard`; their parts,
    one after the other, are the batch of one process. A source reads the part alone, unless it has
    `shuffled`, and where it or `augment` is random, it draws anew for each part. Arrays are
    augmented as one batch, which is then cut: whatever is random comes out as in one process.

    Args:
        inputs: Array `(samples, …)`, a dict of such arrays, anything with `len` and `[index]` that
            gives arrays of one shape, or a source: anything with `len` and
            `read(indices, epoch, index)` that gives `(inputs, targets)` of a batch, such as
            `RecordSource`. It may have `shuffled(rng, batch_size)`, which gives an epoch's order,
            and `of_one_shape()`, the same source with all batches padded alike.
        targets: Array `(samples, …)`; `None` with a source, which has its own.
        batch_size: Samples in a batch.
        num_classes: Where targets are classes, their number: they are checked, those of a source
            as they are read, and arrays become int32.
        shuffle: Whether to draw a new order each epoch.
        seed: Integer ≥ 0, of the order.
        augment: `None`, or a function `(inputs, targets, epoch, index) -> (inputs, targets)` of a
            batch and its index, such as `make_augmentation` gives.
        drop_remainder: Whether to leave out a last batch that is not full.
        epoch: The epoch to start with.
        steps: Batches of an epoch. `None`: one pass over the samples. Otherwise epochs are cut out
            of passes that follow each other, each in an order of its own.
        shard: `(index, count)`: which of how many parts of each batch to give.
        threads: How many make batches, in place of Keras' `workers`. With more than one they make
            the next ones while one is used, as long as batches are taken in their order; `augment`
            and `read` of a source are then called by several at a time.

    Returns:
        Each item is `(inputs, targets)`, as they came or as `augment` gives them.

    Raises:
        ValueError: if sizes do not fit, an argument is out of range, or a class is none of
            `num_classes`.

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
        steps: int | None = None,
        shard: tuple[int, int] = (0, 1),
        threads: int = 1,
    ) -> None:
        super().__init__()
        _check_sizes(inputs, batch_size, drop_remainder, steps)
        if not hasattr(inputs, "read"):
            targets = _checked_targets(inputs, targets, num_classes)
        if seed < 0 or epoch < 0:
            raise ValueError(
                f"`seed` and `epoch` must be 0 or more. Received: seed={seed}, epoch={epoch}"
            )
        self.inputs, self.targets = inputs, targets
        fixed = running.batches_have_one_shape() and hasattr(inputs, "of_one_shape")
        self._source = inputs.of_one_shape() if fixed else inputs
        self.batch_size, self.num_classes = batch_size, num_classes
        self.shuffle, self.seed = shuffle, seed
        self.augment = augment
        self.drop_remainder = drop_remainder
        full, rest = divmod(size_of(inputs), batch_size)
        self._batches_of_a_pass = full + (rest > 0 and not drop_remainder)
        self._steps = steps or self._batches_of_a_pass
        self.epoch = epoch
        self.shard = shard
        self.threads = threads
        self._pool: ThreadPoolExecutor | None = None
        self._ahead: dict[tuple[int, int], Any] = {}  # (epoch, index) -> the future batch
        self._last = -1  # index of the batch that was taken last

    @property
    def epoch(self) -> int:
        """The epoch whose batches `self[index]` gives."""
        return self._epoch

    @epoch.setter
    def epoch(self, epoch: int) -> None:
        self._epoch = epoch
        first, last = (self._pass(epoch, index)[0] for index in (0, len(self) - 1))
        self._orders = {number: self._order(number) for number in range(first, last + 1)}

    def _order(self, number):
        """The order of the samples in a pass."""
        count = size_of(self.inputs)
        if not self.shuffle:
            return np.arange(count)
        rng = np.random.default_rng((self.seed, number))
        if hasattr(self.inputs, "shuffled"):
            return self.inputs.shuffled(rng, self.batch_size)
        return rng.permutation(count)

    def _pass(self, epoch, index):
        """The pass that a batch of an epoch is in, and its number there."""
        return divmod(epoch * len(self) + index, self._batches_of_a_pass)

    @property
    def shard(self) -> tuple[int, int]:
        """Which of how many parts of each batch `self[index]` gives."""
        return self._shard

    @shard.setter
    def shard(self, shard: tuple[int, int]) -> None:
        index, count = shard
        if not 0 <= index < count:
            raise ValueError(
                f"`shard` must be `(index, count)` with 0 <= index < count. Received: shard={shard}"
            )
        self._shard = index, count

    def on_epoch_end(self) -> None:
        self.epoch += 1

    def __len__(self) -> int:
        return self._steps

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        if self.threads == 1:
            return self._make(self.epoch, self._orders, index)
        self._pool = self._pool or ThreadPoolExecutor(self.threads)
        in_order, self._last = index in (0, self._last + 1), index
        end = min(index + 1 + self.threads * in_order, len(self))
        wanted = [(self.epoch, number) for number in range(index, max(end, index + 1))]
        # What is no longer wanted, such as the rest of a pass that was broken off, is forgotten.
        self._ahead = {
            key: self._ahead.get(key) or self._pool.submit(self._make, key[0], self._orders, key[1])
            for key in wanted
        }
        return self._ahead.pop(wanted[0]).result()

    def _make(self, epoch, orders, index):
        number, batch = self._pass(epoch, index)
        start = batch * self.batch_size
        chosen = orders[number][start : start + self.batch_size]
        part, count = self.shard
        some = slice(part * len(chosen) // count, (part + 1) * len(chosen) // count)
        if hasattr(self.inputs, "read") and not hasattr(self.inputs, "shuffled"):
            return self._augmented(chosen[some], epoch, index * count + part)
        # Sequences are padded by the longest of the whole batch, images mixed with all others.
        whole = self._augmented(chosen, epoch, index)
        return keras.tree.map_structure(lambda array: array[some], whole)

    def _augmented(self, chosen, epoch, index):
        inputs, targets = self._read(chosen, epoch, index)
        if self.augment is None:
            return inputs, targets
        return self.augment(inputs, targets, epoch, index)

    def _read(self, chosen, epoch, index):
        if hasattr(self.inputs, "read"):
            inputs, targets = self._source.read(chosen, epoch, index)
            if self.num_classes is not None and len(targets):
                _check_classes(targets, self.num_classes)
            return inputs, targets
        return _take(self.inputs, chosen), self.targets[chosen]


def _take(inputs, chosen):
    if isinstance(inputs, dict):
        return {name: array[chosen] for name, array in inputs.items()}
    if isinstance(inputs, np.ndarray):
        return inputs[chosen]
    return np.stack([inputs[int(i)] for i in chosen])


def _check_sizes(inputs, batch_size, drop_remainder, steps):
    check_positive_or_none("steps", steps)
    check_integer("batch_size", batch_size)
    if not size_of(inputs):
        raise ValueError("`inputs` must hold one sample or more. Received: none")
    if drop_remainder and size_of(inputs) < batch_size:
        raise ValueError(
            "`batch_size` must be no more than there are samples, since training takes whole "
            f"batches. Received: batch_size={batch_size}, {size_of(inputs)} samples"
        )


def _checked_targets(inputs, targets, num_classes):
    targets = np.asarray(targets)
    if num_classes is not None:
        targets = targets.astype("int32").reshape(-1)
    if size_of(inputs) != len(targets):
        raise ValueError(
            "`inputs` and `targets` must be of one length. "
            f"Received: {size_of(inputs)} inputs, {len(targets)} targets"
        )
    if num_classes is not None:
        _check_classes(targets, num_classes)
    return targets


def _check_classes(targets, num_classes):
    if targets.min() < 0 or targets.max() >= num_classes:
        raise ValueError(
            "`targets` must be from 0 to `num_classes - 1`. Received: targets from "
            f"{targets.min()} to {targets.max()}, num_classes={num_classes}"
        )
