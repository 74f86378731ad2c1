"""Hold the parts and labels of a data set, and the samples of a part."""

import copy
import dataclasses
import functools
import warnings
import zlib
from collections.abc import Sequence
from typing import Any, Self

import numpy as np

LOOKED_AT = 256  # samples per part in a fingerprint
READ_AT_ONCE = 32


@dataclasses.dataclass(frozen=True)
class Dataset:
    """Hold a data set with a training part, a test part and an optional validation part.

    Args:
        name: Str, name of the set.
        train: Tuple `(inputs, targets)`, the arguments of `Pipeline`. A source with custom targets
            is given as `(source, None)`; `source[start:stop]` and `source[indices]` select samples.
        test: Tuple like `train`, for testing.
        labels: Tuple of str, names of the classes, labels or regression targets.
        validation: Tuple like `train`, for model selection. `None`: `test` is scored instead.

    Example:
        >>> import numpy as np
        >>> from keras_permix.data import Dataset
        >>> images, labels = np.zeros((8, 28, 28, 1), "uint8"), np.arange(8) % 2
        >>> parts = (images[:6], labels[:6]), (images[6:], labels[6:])
        >>> pets = Dataset("pets", *parts, ("cat", "dog"))
        >>> len(pets.train[0]), pets.validation
        (6, None)
    """

    name: str
    train: tuple[Any, Any]
    test: tuple[Any, Any]
    labels: tuple[str, ...]
    validation: tuple[Any, Any] | None = None

    def __post_init__(self) -> None:
        if self.validation is not None and not size_of(self.validation[0]):
            object.__setattr__(self, "validation", None)


class Source:
    """Hold samples with targets; base class of the sources that `Pipeline` reads by batches.

    `source[start:stop]` and `source[indices]` return a source with some of the samples. Subclasses
    define `read`, or the inputs of a batch, `_inputs`. Index `i` is sample `self.chosen[i]`.
    `targets` is an array `(count, …)`, or `None` if targets are stored in the samples.
    """

    def __init__(self, count: int, targets: Any = None) -> None:
        self.chosen = np.arange(count)
        self._targets: Any = None if targets is None else as_targets(targets)
        if self._targets is not None and len(self._targets) != count:
            rule = "Every sample must have one target"
            raise ValueError(f"{rule}. Received: {count} samples, {len(self._targets)} targets")

    def __len__(self) -> int:
        return len(self.chosen)

    def __getitem__(self, part: slice | np.ndarray) -> Self:
        if not isinstance(part, slice | np.ndarray):
            raise TypeError(f"A source accepts slices and arrays. Received: source[{part!r}]")
        some = copy.copy(self)
        some.chosen = self.chosen[part]
        return some

    def read(
        self, indices: Sequence[int] | np.ndarray, epoch: int = 0, index: int = 0
    ) -> tuple[Any, np.ndarray]:
        """Return a batch `(inputs, targets)`; its epoch and index seed random transformations."""
        chosen = self.chosen[indices]
        return self._inputs(chosen), self._targets[chosen]

    def _inputs(self, chosen):
        raise NotImplementedError

    @property
    def targets(self) -> np.ndarray | None:
        """Return the targets, or `None` if they are stored in the samples."""
        return None if self._targets is None else self._targets[self.chosen]


def as_targets(values: Any) -> np.ndarray:
    """Return integers, such as classes, as an int32 array, and other numbers as a float32 array."""
    array = np.asarray(values)
    return array.astype("int32" if array.dtype.kind in "biu" else "float32")


def split_source(source, *counts):
    """Return parts of a `Dataset`: consecutive parts of a source, or of `(inputs, targets)`."""
    ends = np.cumsum(counts)
    slices = [slice(end - count, end) for count, end in zip(counts, ends, strict=True)]
    if isinstance(source, Source):
        return [(source[part], None) for part in slices]
    return [tuple(take(values, part) for values in source) for part in slices]


def some(part, count):
    """Return `count` evenly spaced samples of a part of a `Dataset`; all for `None`."""
    total = size_of(part[0])
    if count is None or count >= total:
        return part
    index = np.arange(count) * total // count
    return tuple(None if values is None else take(values, index) for values in part)


def size_of(inputs):
    """Return the number of samples of an array, a dict of arrays or a source."""
    return len(next(iter(inputs.values()))) if isinstance(inputs, dict) else len(inputs)


def take(values, index):
    """Index an array or tensor, a dict of them, a source or a list by an array of indices."""
    if isinstance(values, dict):
        return {name: array[index] for name, array in values.items()}
    return [values[i] for i in index] if isinstance(values, list | tuple) else values[index]


def labels_of(part):
    """Return the targets of a part as an array, or `None` if they are stored in the samples."""
    source, targets = part
    targets = getattr(source, "targets", None) if targets is None else targets
    return None if targets is None else np.asarray(targets)


def fingerprint(dataset: Dataset) -> dict[str, Any]:
    """Summarize a data set by its labels, and by the size and a checksum of each part.

    At most 256 samples per part are read.
    """
    parts = {"train": dataset.train, "validation": dataset.validation, "test": dataset.test}
    parts = {name: _summary(*part) for name, part in parts.items() if part is not None}
    return {"labels": list(dataset.labels), **parts}


def check_classes(name, train, test):
    """Check that training has at least two classes, and testing no additional ones."""
    if len(train) < 2 or not set(test) <= set(train):
        rule = "Training must have at least two classes, and every test class"
        found = f"{sorted(train)[:10]} for training, {sorted(test)[:10]} for testing"
        raise ValueError(f"{rule}. Received: {name=}, {found}")


def warn_of_missing(name, labels, found, aim, stacklevel):
    """Warn if `found`, the classes to `aim` on (such as "test"), lacks some of all `labels`."""
    if missing := [label for label in labels if label not in found]:
        warnings.warn(
            f"{name} has no samples to {aim} on for {len(missing)} of its {len(labels)} classes: "
            f"{missing[:10]}",
            stacklevel=stacklevel + 1,
        )


def _summary(inputs, targets):
    size = size_of(inputs)
    some = np.linspace(0, size - 1, min(size, LOOKED_AT)).astype(int)
    checksum = 0
    for start in range(0, len(some), READ_AT_ONCE):
        batch = some[start : start + READ_AT_ONCE]
        if targets is None:
            x, y = inputs.read(batch, 0, 0)
        else:
            x = take(inputs, batch) if isinstance(inputs, dict) else [inputs[int(i)] for i in batch]
            y = np.asarray(targets)[batch]
        checksum = _checksum([x, np.asarray(y, "float64")], checksum)
    return f"{size} samples, {checksum:08x}"


def _checksum(values, before):
    """Return the checksum of numbers, texts and arrays, possibly nested."""
    if isinstance(values, dict):
        values = [part for item in sorted(values.items()) for part in item]
    array = values if isinstance(values, list | tuple) else np.asarray(values)
    if isinstance(array, np.ndarray) and array.dtype != object:
        array = np.ascontiguousarray(array)
        before = zlib.crc32(f"{array.dtype.str} {array.shape}".encode(), before)
        return zlib.crc32(array.tobytes(), before)
    return functools.reduce(lambda total, value: _checksum(value, total), array, before)
