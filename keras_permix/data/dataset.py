"""Hold the parts and labels of a data set."""

import dataclasses
import functools
import warnings
import zlib
from typing import Any

import numpy as np

LOOKED_AT = 256  # samples per part in a fingerprint
READ_AT_ONCE = 32


@dataclasses.dataclass(frozen=True)
class Dataset:
    """Hold a data set with a training part, a test part and an optional validation part.

    Args:
        name: Str, name of the set.
        train: Tuple `(inputs, targets)`, the arguments of `Pipeline`. A source with custom targets
            is given as `(source, None)`.
        test: Tuple like `train`, for testing.
        labels: Tuple of str, names of the classes, labels or regression targets.
        validation: Tuple like `train`, for model selection. `None`: training reports scores on
            `test`.

    Example:

    >>> import numpy as np
    >>> from keras_permix.data import Dataset
    >>> images, labels = np.zeros((8, 28, 28, 1), "uint8"), np.arange(8) % 2
    >>> pets = Dataset("pets", (images[:6], labels[:6]), (images[6:], labels[6:]), ("cat", "dog"))
    >>> len(pets.train[0]), pets.validation
    (6, None)
    """

    name: str
    train: tuple[Any, Any]
    test: tuple[Any, Any]
    labels: tuple[str, ...]
    validation: tuple[Any, Any] | None = None


def some(part, count):
    """Return `count` evenly spaced samples of a part of a `Dataset`; all for `None`."""
    total = size_of(part[0])
    if count is None or count >= total:
        return part
    index = np.arange(count) * total // count
    inputs, targets = part
    if isinstance(inputs, dict):
        inputs = {name: array[index] for name, array in inputs.items()}
    else:
        inputs = taken(inputs, index)
    return inputs, None if targets is None else taken(targets, index)


def labels_of(part):
    """Return the targets of a part as an array, or `None` if they are stored in the samples."""
    source, targets = part
    if targets is None:
        known = getattr(source, "known_labels", None)
        targets = known() if known else getattr(source, "labels", getattr(source, "targets", None))
    return None if targets is None else np.asarray(targets)


def taken(values, index):
    """Index an array, a source or a list by a slice or an array of indices."""
    if isinstance(index, slice) or not isinstance(values, list | tuple):
        return values[index]
    return [values[number] for number in index]


def fingerprint(dataset: Dataset) -> dict[str, Any]:
    """Summarize a data set by its labels, and by the size and a checksum of each part.

    Args:
        dataset: A `Dataset`. At most 256 samples per part are read.

    Returns:
        A dict of plain values.
    """
    parts = {"train": dataset.train, "validation": dataset.validation, "test": dataset.test}
    parts = {name: _summary(*part) for name, part in parts.items() if part is not None}
    return {"labels": list(dataset.labels), **parts}


def check_classes(name, train, test):
    """Check that training has two classes or more, and that testing has no others.

    Args:
        name: Name of the set, for the error message.
        train, test: Collections of the classes of each part.
    """
    if len(set(train)) < 2 or not set(test) <= set(train):
        raise ValueError(
            "A set must have two classes or more, and no others for testing than for training. "
            f"Received: name={name!r}, {sorted(set(train))[:10]} for training, "
            f"{sorted(set(test))[:10]} for testing"
        )


def warn_of_missing(name, labels, found, aim, stacklevel):
    """Warn if a part to `aim` on has no samples of some classes."""
    if lacking := [label for label in labels if label not in found]:
        warnings.warn(
            f"Of {len(lacking)} of the {len(labels)} classes of {name}, there is nothing to "
            f"{aim} on: {lacking[:10]}",
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
            x, y = _chosen(inputs, batch), np.asarray(targets)[batch]
        checksum = _checksum([x, np.asarray(y, "float64")], checksum)
    return f"{size} samples, {checksum:08x}"


def _chosen(inputs, some):
    if isinstance(inputs, dict):
        return {name: array[some] for name, array in inputs.items()}
    return [inputs[int(index)] for index in some]


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


def size_of(inputs):
    """Return the number of samples of an array, a dict of arrays or a source."""
    return len(next(iter(inputs.values()))) if isinstance(inputs, dict) else len(inputs)
