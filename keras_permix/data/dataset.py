"""A data set: what is trained on, what is tested on, and what the answers are called."""

import dataclasses
from typing import Any


@dataclasses.dataclass(frozen=True)
class Dataset:
    """A data set in two parts.

    Args:
        name: What the set is called.
        train: `(inputs, targets)` as `Pipeline` takes them; `(source, None)` of a source, which
            has its own targets.
        test: The same, for testing.
        labels: Names of the classes, or of the numbers of a regression, a tuple of str.
    """

    name: str
    train: tuple[Any, Any]
    test: tuple[Any, Any]
    labels: tuple[str, ...]


def first(part, count):
    """The first `count` samples of a part of a `Dataset`; all of them for `None`."""
    some = slice(count)
    return tuple(None if values is None else _cut(values, some) for values in part)


def _cut(values, some):
    if isinstance(values, dict):
        return {name: array[some] for name, array in values.items()}
    return values[some]
