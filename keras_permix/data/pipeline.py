"""Make reproducible batches for `fit`."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeAlias

import keras
import numpy as np

from keras_permix.data.dataset import size_of, take
from keras_permix.ops.backend import running
from keras_permix.utils.checks import check_integer

# (inputs, targets, epoch, index of the batch) -> (inputs, targets)
Augment: TypeAlias = Callable[[Any, Any, int, int], tuple[Any, Any]]


class Pipeline(keras.utils.PyDataset):
    """Batch, shuffle and augment samples.

    Order and augmentation depend only on seed, epoch and batch index. A run resumed with `epoch=k`
    therefore sees the same batches, with any number of `threads`. So does a run on another backend,
    unless `augment` contains Keras layers. Keras advances `epoch` after each epoch, and once before
    the first epoch of `fit`.

    Pass `shuffle=False` to `fit`. Otherwise Keras shuffles batches, which a resumed run does not
    repeat. On TensorFlow, all batches of a source are padded to one shape, because Keras infers the
    shapes from the first two batches.

    With several processes, each process takes one `shard` of every batch. Arrays are augmented
    before they are split, so the result equals that of a single process. A source without
    `shuffled` reads only its shard, and random numbers are drawn per shard.

    Args:
        inputs: Array `(samples, …)`, dict of such arrays, or sequence of arrays of one shape; or a
            source with `__len__` and `read(indices, epoch, index)`, which returns
            `(inputs, targets)`, such as `RecordSource`. A source may define
            `shuffled(rng, batch_size)`, which returns the order of an epoch, and `of_one_shape()`,
            which returns a source with batches of one shape.
        targets: Array `(samples, …)`. `None` for a source.
        batch_size: Int, samples per batch.
        num_classes: Int, number of classes. Targets are then checked, and arrays become int32.
            Default: `None`, for other targets.
        shuffle: Bool, whether to shuffle the samples in each epoch. Default: `False`.
        seed: Int ≥ 0, seed of the order. Default: 0.
        augment: Function `(inputs, targets, epoch, index) -> (inputs, targets)`, such as
            `Augmentation`. Default: `None`.
        drop_remainder: Bool, whether to drop an incomplete last batch. Default: `False`.
        epoch: Int ≥ 0, first epoch. Default: 0.
        steps: Int, batches per epoch. Default: `None`, one pass over the samples. With `steps`,
            epochs continue across passes, each shuffled separately.
        shard: Tuple `(index, count)`, the part of each batch to return. Default: `(0, 1)`.
        threads: Int, number of threads that prepare batches ahead, instead of Keras' `workers`.
            With more than one, `augment` and `read` must be thread-safe. Default: 1.

    Returns:
        Each item is a batch `(inputs, targets)`.

    Raises:
        ValueError: If sizes do not match, a class is out of range, or a batch has fewer samples
            than shards.

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
        count = size_of(inputs)
        full, rest = divmod(count, check_integer("batch_size", batch_size))
        self._batches_of_a_pass = full + (rest > 0 and not drop_remainder)
        if not self._batches_of_a_pass:
            rule = "`inputs` must fill at least one batch; training drops an incomplete batch"
            raise ValueError(f"{rule}. Received: {count} samples, {batch_size=}")
        least = batch_size if drop_remainder or not rest else rest
        if least < shard[1]:
            rule = "Every batch must have a sample per shard"
            raise ValueError(f"{rule}. Received: a batch of {least} samples, {shard=}")
        self._steps = steps or self._batches_of_a_pass
        if not hasattr(inputs, "read"):
            targets = np.asarray(targets)
            if num_classes is not None:
                targets = targets.reshape(-1)
            sizes = [*map(len, inputs.values())] if isinstance(inputs, dict) else [count]
            if len({*sizes, *targets.shape[:1]}) > 1 or not targets.ndim:
                raise ValueError(
                    "`inputs` and `targets` must have the same number of samples. "
                    f"Received: inputs of {sizes}, targets of shape {targets.shape}"
                )
            if num_classes is not None:
                _check_classes(targets.astype("float64"), num_classes)
                targets = targets.astype("int32")
        self.inputs, self.targets = inputs, targets
        fixed = running.batches_have_one_shape() and hasattr(inputs, "of_one_shape")
        self._source = inputs.of_one_shape() if fixed else inputs
        self.batch_size, self.num_classes = batch_size, num_classes
        self.shuffle, self.seed = shuffle, seed
        self.augment = augment
        self.epoch = epoch
        self.shard = shard
        self.threads = threads
        self._pool: ThreadPoolExecutor | None = None
        self._ahead: dict[tuple[int, int], Any] = {}  # (epoch, index) -> the future batch
        self._last = -1  # index of the batch that was taken last

    @property
    def epoch(self) -> int:
        """Return the current epoch."""
        return self._epoch

    @epoch.setter
    def epoch(self, epoch: int) -> None:
        self._epoch = epoch
        first, last = (self._pass(epoch, index)[0] for index in (0, len(self) - 1))
        self._orders = {number: self._order(number) for number in range(first, last + 1)}

    def _order(self, number):
        """Return the order of the samples in a pass."""
        count = size_of(self.inputs)
        if not self.shuffle:
            return np.arange(count)
        rng = np.random.default_rng((self.seed, number))
        if hasattr(self.inputs, "shuffled"):
            return self.inputs.shuffled(rng, self.batch_size)
        return rng.permutation(count)

    def _pass(self, epoch, index):
        """Return the pass of a batch, and its index in that pass."""
        return divmod(epoch * len(self) + index, self._batches_of_a_pass)

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
        wanted = [(self.epoch, number) for number in range(index, end)]
        # Drop batches that are no longer needed, such as those of an interrupted epoch.
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
        # Padding and image mixing depend on the whole batch.
        whole = self._augmented(chosen, epoch, index)
        return keras.tree.map_structure(lambda array: array[some], whole)

    def _augmented(self, chosen, epoch, index):
        if hasattr(self.inputs, "read"):
            inputs, targets = self._source.read(chosen, epoch, index)
            if self.num_classes is not None:
                _check_classes(targets, self.num_classes)
        elif isinstance(self.inputs, dict | np.ndarray):
            inputs, targets = take(self.inputs, chosen), self.targets[chosen]
        else:
            inputs = np.stack([self.inputs[int(i)] for i in chosen])
            targets = self.targets[chosen]
        if self.augment is None:
            return inputs, targets
        return self.augment(inputs, targets, epoch, index)


def _check_classes(targets, num_classes):
    least, most = targets.min(), targets.max()
    if least < 0 or most >= num_classes or (targets % 1).any():
        rule = "`targets` must be integers from 0 to `num_classes - 1`"
        raise ValueError(f"{rule}. Received: targets from {least:g} to {most:g}, {num_classes=}")
