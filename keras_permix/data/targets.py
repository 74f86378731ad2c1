"""Read the targets of rows: several labels, or numbers."""

import math
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from keras_permix.data.files import read_row
from keras_permix.utils.checks import check_choice
from keras_permix.utils.tables import SEPARATORS, Rows, shown

PREDICTS = ("labels", "values")
Target: TypeAlias = tuple[float, ...]


def target_reader(
    rows: Rows,
    predicts: str,
    labels: Sequence[str] | None = None,
    separator: str | None = None,
) -> tuple[tuple[str, ...], Callable[[dict[str, Any]], Target]]:
    """Return the names of the targets, and a function from a row to its targets.

    With `predicts="values"`, the columns `labels` hold numbers, by default the column "label". With
    "labels", they hold 0 or 1; by default, the column "label" holds the labels that apply (a list
    in JSON lines, or words between separators). The separator is ";", or else "|", if it occurs.
    `rows` are those of the training part. `read` raises errors for invalid rows.
    """
    check_choice("predicts", predicts, PREDICTS)
    if predicts == "values" or labels:
        columns = tuple(labels or ("label",))
        flags = predicts == "labels"
        return columns, lambda row: tuple(number_of(row, column, flags) for column in columns)
    found = (mark for mark in SEPARATORS for row in rows if mark in str(row.get("label")))
    mark = separator or next(found, None)
    rule = "A row must have a `label`: words between separators, or a list, known in training."
    given = [read_row(row, lambda row: _labels_of(row, mark), rule) for row in rows]
    names = tuple(sorted({label for some in given for label in some}))
    if not names:
        raise ValueError(f"At least one row must have a label. Received: {shown(rows[0])}")

    def read_flags(row):
        given = _labels_of(row, mark)
        if unknown := [label for label in given if label not in names]:
            raise ValueError(f"{unknown}, not among {list(names)[:10]}")
        return tuple(float(name in given) for name in names)

    return names, lambda row: read_row(row, read_flags, rule)


def check_unused(labels, separator):
    """Raise for arguments that do not apply to classes, which the column "label" names."""
    if labels is not None or separator is not None:
        rule = "`labels` and `separator` must be None for predicts='class'"
        raise ValueError(f"{rule}. Received: {labels=}, {separator=}")


def class_of(row):
    """Return the class in the column "label", or "" without a label."""
    label = row.get("label")
    if isinstance(label, list | dict):
        rule = "`label` must be one class. For several labels per sample, set predicts='labels'"
        raise ValueError(f"{rule}. Received: {shown(row)}")
    return "" if label is None else str(label).strip()


def number_of(row: dict[str, Any], column: str, flags: bool = False) -> float:
    """Return the finite number, or with `flags` the 0 or 1, in a column of a row."""
    kind = "0 or 1" if flags else "a number"
    rule = f"Every row must have {kind} in the column {column!r}. For other columns, set `labels`."

    def read(row):
        number = float(row[column])
        valid = number in (0, 1) if flags else math.isfinite(number)
        if not valid:
            raise ValueError(f"{number} is not {'0 or 1' if flags else 'finite'}")
        return number

    return read_row(row, read, rule)


def _labels_of(row, separator):
    """Return the labels of a row; an empty value means no labels."""
    value = row["label"]
    if not isinstance(value, list):
        text = "" if value is None else str(value)
        value = text.split(separator) if separator else [text]
    return [str(label).strip() for label in value if str(label).strip()]
