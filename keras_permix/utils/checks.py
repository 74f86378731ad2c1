"""Check arguments of ops, layers, models and commands."""

import difflib
import math
import numbers
from collections import Counter
from collections.abc import Iterable
from importlib import import_module
from operator import index
from typing import Any

import numpy as np

ALIGNMENTS = ("independent", "reference")


def import_extra(module: str, extra: str, what: str) -> Any:
    """Import a module that an extra of `keras_permix` installs, and that `what` requires."""
    try:
        return import_module(module)
    except ImportError as error:
        command = f'pip install "keras_permix[{extra}]"'
        raise ImportError(f"{what} requires {module.partition('.')[0]}: {command}.") from error


def check_choice(name, value, choices):
    """Return `value` if it is one of `choices`."""
    if value not in tuple(choices):
        raise ValueError(f"`{name}` must be one of {tuple(choices)}. Received: {name}={value!r}")
    return value


def plain(value: Any) -> Any:
    """Return `value` with NumPy arrays and scalars converted to lists and Python numbers."""
    if isinstance(value, dict):
        return {key: plain(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return (tuple if isinstance(value, tuple) else list)(map(plain, value))
    return value.tolist() if isinstance(value, np.ndarray | np.generic) else value


def check_named(argument: str, spec: Any, choices: Iterable[str]) -> dict[str, Any]:
    """Return `spec`, a name or a dict with a "name", as a dict; check the name."""
    named = plain(spec) if isinstance(spec, dict) else {"name": spec}
    if named.get("name") not in (names := tuple(choices)):
        raise ValueError(f"`{argument}` must be one of {names}. Received: {argument}={spec!r}")
    return named


def check_names(taker, given, known):
    """Raise for argument names that `taker` does not accept, and suggest the closest ones."""
    known, unknown = sorted(known), sorted(set(given) - set(known))
    if unknown:
        near = (difflib.get_close_matches(name, known, n=1) for name in unknown)
        hint = "".join(f" Did you mean `{name}`?" for names in near for name in names)
        raise ValueError(f"{taker} accepts {', '.join(known)}.{hint} Received: {unknown}")


def check_flags(given, parameters):
    """Raise for values other than True and False of parameters whose default is a bool."""
    for name, value in given.items():
        is_flag = name in parameters and isinstance(parameters[name].default, bool)
        if is_flag and not isinstance(value, bool | np.bool_):
            raise ValueError(f"`{name}` must be True or False. Received: {name}={value!r}")


def check_integer(name, value, least=1, or_none=""):
    """Return `value` as a Python integer if it is an integer of at least `least`."""
    try:
        number = None if isinstance(value, bool) else index(value)
    except TypeError:
        number = None
    if number is None or number < least:
        kind = "a positive integer" if least == 1 else f"an integer of at least {least}"
        raise ValueError(f"`{name}` must be {kind}{or_none}. Received: {name}={value!r}")
    return number


def is_index(value: Any, count: int) -> bool:
    """Return whether `value` is an int that indexes a sequence of `count` items."""
    return isinstance(value, int) and not isinstance(value, bool) and -count <= value < count


def check_positive_or_none(argument, value):
    """Return `value` if it is None or a positive integer."""
    return None if value is None else check_integer(argument, value, or_none=" or None")


def check_layer_index(layer_index, num_layers):
    """Return a layer index, counted from 0, as a Python integer below the number of layers."""
    number = check_integer("layer_index", layer_index, 0)
    if number >= check_integer("num_layers", num_layers):
        last = num_layers - 1
        raise ValueError(f"`layer_index` must count from 0 to {last}. Received: {layer_index=}")
    return number


def check_floats(argument, values, count, each):
    """Return `values` as a list of `count` finite floats, one per `each`, such as "channel"."""
    try:
        floats = [float(value) for value in values]
    except (TypeError, ValueError):
        floats = []
    if len(floats) != count or not all(map(math.isfinite, floats)):
        rule = f"`{argument}` must contain one finite value per {each}"
        raise ValueError(f"{rule}. Received: {argument}={values!r}, {each}s={count}")
    return floats


def fits(found, expected):
    """Return whether a shape is the expected one. None is unknown."""
    pairs = zip(found, expected, strict=False)
    return len(found) == len(expected) and all(a == b or None in (a, b) for a, b in pairs)


def check_positive(argument, value):
    """Return `value` if it is a finite number above 0."""
    is_number = isinstance(value, numbers.Real) and not isinstance(value, bool)
    if not is_number or not 0.0 < value < math.inf:
        raise ValueError(f"`{argument}` must be a positive number. Received: {argument}={value!r}")
    return value


def check_rate(argument, value):
    """Return the dropout rate `value` if it is in [0, 1)."""
    if not isinstance(value, numbers.Real) or not 0.0 <= value < 1.0:
        raise ValueError(f"`{argument}` must be in [0, 1). Received: {argument}={value!r}")
    return float(value)


def check_number(argument: str, value: Any, kind: Any) -> Any:
    """Check a number by its annotation: an `int` is positive, a `float` is positive or a rate."""
    if kind is int:
        return check_integer(argument, value)
    if kind == int | None:
        return check_positive_or_none(argument, value)
    if kind is float:
        return (check_rate if argument.endswith("dropout") else check_positive)(argument, value)
    return value


def check_labels(labels: Any, outputs: int) -> tuple[str, ...] | None:
    """Return labels as a tuple if they name each output differently; `None` stays `None`."""
    labels = plain(labels)
    if labels is None:
        return None
    named = isinstance(labels, list | tuple) and all(isinstance(name, str) for name in labels)
    if not named or len(labels) != outputs:
        count = len(labels) if hasattr(labels, "__len__") else "no"
        rule = "`labels` must contain one name per class or output, as str"
        given = f"labels={str(labels)[:100]}, {count} labels for {outputs} outputs"
        raise ValueError(f"{rule}. Received: {given}")
    if twice := sorted(name for name, count in Counter(labels).items() if count > 1):
        raise ValueError(f"`labels` must be unique. Received: {twice} more than once")
    return tuple(labels)
