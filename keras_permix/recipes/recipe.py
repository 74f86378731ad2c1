"""Define the values of a recipe, their types and their checks."""

import copy
import dataclasses
import math
import types
import typing
from collections.abc import Callable
from typing import Annotated, Any, Literal, NamedTuple, Required, TypedDict

from keras_permix._typing import StrPath
from keras_permix.utils.checks import check_names


class Rule(NamedTuple):
    """Hold a condition on a value beyond its type."""

    words: str
    holds: Callable[[Any], bool]


Count = Annotated[int, Rule("a positive integer", lambda value: value >= 1)]
Natural = Annotated[int, Rule("an integer, 0 or more", lambda value: value >= 0)]
Amount = Annotated[float, Rule("a number, 0 or more", lambda value: 0 <= value < math.inf)]
Momentum = Annotated[float, Rule("a number from 0 to 1, 1 excluded", lambda value: 0 <= value < 1)]
Share = Annotated[float, Rule("a number between 0 and 1", lambda value: 0 < value < 1)]
Names = list[str]
# "rsqrt" and "cosine_cycles" are schedules of the Long Range Arena.
ScheduleName = Literal["constant", "cosine", "cosine_epochs", "linear", "rsqrt", "cosine_cycles"]
Precision = Literal[
    "float32", "bfloat16", "float16", "mixed_bfloat16", "mixed_float16", "float64"
]  # fmt: skip


class ModelTable(TypedDict, total=False):
    """List keys of `[model]` that do not depend on the class."""

    class_name: str
    trainable: bool
    dtype: Annotated[None, Rule("omitted; set `precision` instead", lambda value: True)]


class DataTable(TypedDict, total=False):
    """List keys of `[data]` that several loaders accept; `Task.check_data` checks which."""

    name: Required[str]
    path: str | None
    train: str | Count | None
    test: str | Count | None
    validation: str | Natural | None
    fields: Names
    labels: Names | None
    separator: str | None
    splits: Names
    test_fraction: Share | None
    split_seed: Natural
    random_crop: bool
    skip_unreadable: bool
    keep: Annotated[float, Rule("a number above 0, at most 1", lambda value: 0 < value <= 1)]


class OptimizerTable(TypedDict, total=False):
    """List keys of `[optimizer]` that are checked before Keras does."""

    name: Required[str]
    learning_rate: Required[Amount]
    weight_decay: Amount | None
    beta_1: Momentum
    beta_2: Momentum
    momentum: Momentum
    epsilon: Amount
    clipnorm: Amount | None
    global_clipnorm: Amount | None


@dataclasses.dataclass(frozen=True)
class Schedule:
    """Hold the learning-rate schedule of a recipe.

    `keras_permix.training.optimizers.WarmupDecay` describes the values.
    """

    name: ScheduleName = "constant"
    warmup_epochs: Amount = 0
    warmup_steps: Natural | None = None
    warmup_start: Amount = 0.0
    warmup_power: Count = 1
    total_steps: Count | None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class Recipe:
    """Hold the values with which `permix train` trains a model.

    `load_recipe` reads a recipe from a file, `make_recipe` makes one from a dict. Both check all
    values. `docs/reference/recipe_keys.md` describes every field.

    Example:
        >>> from keras_permix.training import load_recipe
        >>> load_recipe("cspvit/mnist").schedule.name
        'cosine'
    """

    model: Annotated[dict[str, Any], ModelTable] = dataclasses.field(default_factory=dict)
    data: Annotated[dict[str, Any], DataTable]
    augmentation: dict[str, Any] | None = dataclasses.field(default_factory=dict)
    optimizer: Annotated[dict[str, Any], OptimizerTable]
    schedule: Schedule = Schedule()
    batch_size: Count = 128
    epochs: Count = 10
    steps_per_epoch: Count | None = None
    seed: Natural = 0
    precision: Precision = "float32"
    label_smoothing: Momentum = 0.0
    class_weight: Literal["balanced"] | None = None
    early_stopping: Count | None = None  # epochs without a better validation loss
    ema: Momentum | None = None
    init: str | None = None
    freeze: str | Names | None = None
    validation_samples: Count | None = None
    test_samples: Count | None = None
    store: Literal["float16", "float32"] = "float16"
    paper: dict[str, Any] | None = None


def make_recipe(values: dict[str, Any], source: StrPath) -> Recipe:
    """Check nested dicts and make a `Recipe`; errors name the `source` of the values."""
    if "data" not in values or not (values.get("model") or values.get("init")):
        rule = "A recipe must set `data`, and `model` or `init` (`--init cspvit/cifar10_small`)"
        raise ValueError(f"{rule}. Received: {source}")
    values = merge({"optimizer": {"name": "adam", "learning_rate": 1e-3}}, values)
    check_table(values, Recipe, "", source)
    if values.get("model"):
        values["model"] = {k: value for k, value in values["model"].items() if value is not None}
    return Recipe(**{**values, "schedule": Schedule(**values.get("schedule", {}))})


def merge(values: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """Return a copy of the nested dict `values` with `changes` applied key by key.

    A dict with another `name` replaces the old one.
    """
    merged = copy.deepcopy(values)
    for key, change in changes.items():
        old = merged.get(key)
        if isinstance(change, dict) and isinstance(old, str):
            old = {"name": old}
        if isinstance(change, dict) and isinstance(old, dict):
            if change.get("name", old.get("name")) == old.get("name"):
                change = merge(old, change)
        merged[key] = copy.deepcopy(change)
    return merged


def check_table(values: dict[str, Any], table: Any, prefix: str, source: StrPath) -> None:
    """Check the keys and values of a table, named with a prefix, against those of a class."""
    hints = typing.get_type_hints(table, include_extras=True)
    if dataclasses.is_dataclass(table):  # A `TypedDict` allows other keys.
        known = [f"{prefix}{key}" for key in hints]
        if table is Recipe:  # to suggest `optimizer.learning_rate` for `learning_rate`
            known += [f"optimizer.{key}" for key in typing.get_type_hints(OptimizerTable)]
            known += [f"schedule.{key}" for key in typing.get_type_hints(Schedule)]
        check_names(f"The recipe {source}", [f"{prefix}{key}" for key in values], known)
    for key in sorted(getattr(table, "__required_keys__", set()) - values.keys()):
        raise ValueError(f"`{prefix}{key}` must be given. Received: {sorted(values)} in {source}")
    for key, value in values.items():
        name, hint = f"{prefix}{key}", hints.get(key, Any)
        if hint is not Any and not _fits(value, hint):
            found = f"{name}={value!r} in {source}"
            raise ValueError(f"`{name}` must be {_in_words(hint)}. Received: {found}")
        for inner in (hint, *getattr(hint, "__metadata__", ())):
            if dataclasses.is_dataclass(inner) or typing.is_typeddict(inner):
                check_table(value, inner, f"{name}.", source)


def _fits(value, hint):
    origin, parts = typing.get_origin(hint), typing.get_args(hint)
    if origin in (Annotated, Required):
        rules = [rule for rule in parts[1:] if isinstance(rule, Rule)]
        return _fits(value, parts[0]) and all(rule.holds(value) for rule in rules)
    if origin is types.UnionType or origin is typing.Union:
        return any(_fits(value, part) for part in parts)
    if origin is Literal:
        return value in parts
    if origin is list:
        return isinstance(value, list | tuple) and all(_fits(part, parts[0]) for part in value)
    if origin is dict or dataclasses.is_dataclass(hint):
        return isinstance(value, dict)
    if hint in (int, float):
        return isinstance(value, (int, hint)) and not isinstance(value, bool)
    return isinstance(value, hint)


def _in_words(hint):
    origin, parts = typing.get_origin(hint), typing.get_args(hint)
    if origin in (Annotated, Required):
        return next((part.words for part in parts if isinstance(part, Rule)), _in_words(parts[0]))
    if origin is types.UnionType or origin is typing.Union:
        return ", or ".join(map(_in_words, parts))
    if origin is Literal:
        return f"one of {', '.join(parts)}"
    if origin is dict or dataclasses.is_dataclass(hint):
        return "a table"
    if origin is list:
        return "a list of strings"
    words = {str: "a string", int: "an integer", float: "a number", bool: "true or false"}
    return words.get(hint, '"none"')
