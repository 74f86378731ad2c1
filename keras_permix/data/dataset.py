"""A data set: what is trained on, what is tested on, and what the answers are called."""

import dataclasses
import functools
import warnings
import zlib
from typing import Any

import numpy as np

LOOKED_AT = 256  # samples of a part by which data are told from others
READ_AT_ONCE = 32


@dataclasses.dataclass(frozen=True)
class Dataset:
    """A data set in two parts, or three.

    Args:
        name: What the set is called.
        train: `(inputs, targets)` as `Pipeline` takes them; `(source, None)` of a source, which
            has its own targets.
        test: The same, for testing.
        labels: Names of the classes, or of the numbers of a regression, a tuple of str.
        validation: A part like these to choose a model by, where the set has one; `None`: training
            is watched on `test`.

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
    """`count` samples of a part of a `Dataset`, evenly out of all; all of them for `None`."""
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
    """The labels of a part of a `Dataset` as an array of int; `None` where samples must be read."""
    source, targets = part
    if targets is None:
        known = getattr(source, "known_labels", None)
        targets = known() if known else getattr(source, "labels", None)
    return None if targets is None else np.asarray(targets)


def taken(values, index):
    """What a slice, or an array of indices, takes of an array, a source or a list."""
    if isinstance(index, slice) or not isinstance(values, list | tuple):
        return values[index]
    return [values[number] for number in index]


def fingerprint(dataset: Dataset) -> dict[str, Any]:
    """What tells data from others: labels, and of each part the size and a sum of some samples.

    Args:
        dataset: The `Dataset`, of which 256 samples of each part are read.

    Returns:
        A dict of plain values.
    """
    parts = {"train": dataset.train, "validation": dataset.validation, "test": dataset.test}
    told = {name: _told(*part) for name, part in parts.items() if part is not None}
    return {"labels": list(dataset.labels), **told}


def check_classes(name, train, test):
    """Check that the classes of a set's training samples are two or more, and the only ones.

    Args:
        name: What the set is called.
        train, test: Collections of the classes of each part.
    """
    if len(set(train)) < 2 or not set(test) <= set(train):
        raise ValueError(
            "A set must have two classes or more, and no others for testing than for training. "
            f"Received: name={name!r}, {sorted(set(train))[:10]} for training, "
            f"{sorted(set(test))[:10]} for testing"
        )


def warn_of_missing(name, labels, found, aim, stacklevel):
    """Warn of classes that are trained on, and of which a part to `aim` on has no sample."""
    if lacking := [label for label in labels if label not in found]:
        warnings.warn(
            f"Of {len(lacking)} of the {len(labels)} classes of {name}, there is nothing to "
            f"{aim} on: {lacking[:10]}",
            stacklevel=stacklevel + 1,
        )


def _told(inputs, targets):
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
    """The checksum of numbers, texts or arrays, or of lists, tuples or dicts of some."""
    if isinstance(values, dict):
        values = [part for item in sorted(values.items()) for part in item]
    array = values if isinstance(values, list | tuple) else np.asarray(values)
    if isinstance(array, np.ndarray) and array.dtype != object:
        array = np.ascontiguousarray(array)
        before = zlib.crc32(f"{array.dtype.str} {array.shape}".encode(), before)
        return zlib.crc32(array.tobytes(), before)
    return functools.reduce(lambda total, value: _checksum(value, total), array, before)


def size_of(inputs):
    """The number of samples of an array, a dict of arrays or a source."""
    return len(next(iter(inputs.values()))) if isinstance(inputs, dict) else len(inputs)
