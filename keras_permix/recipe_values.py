"""The values of a recipe are of the kinds that training takes: asked before the work begins."""

from numbers import Integral, Real
from typing import Any


def check_values(values: dict[str, Any], source: str) -> None:
    """Raise unless each value of a recipe is of its kind; models and data check their own.

    Args:
        values: A dict of all that `load_recipe` gives.
        source: Where the values come from, for the error.

    Raises:
        ValueError: names the value and the rule.
    """
    for key, (rule, fits) in RULES.items():
        part, _, name = key.rpartition(".")
        held = values[part] if part else values
        value = held.get(name)
        if not (fits(value) or name not in held and key in OPTIONAL):
            raise ValueError(f"`{key}` must be {rule}. Received: {key}={value!r} in {source}")


def _dict(value):
    return isinstance(value, dict)


def _string(value):
    return isinstance(value, str)


def _names(value):
    return _string(value) or isinstance(value, (list, tuple)) and all(map(_string, value))


def _pair(value):
    return isinstance(value, (list, tuple)) and len(value) == 2 and all(map(_name_or_none, value))


def _name_or_none(value):
    return value is None or _string(value)


def _flag(value):
    return isinstance(value, bool)


def _one_of(names):
    return f"one of {', '.join(names)}", lambda value: value in names


def _integer(least):
    return lambda value: _is(Integral, value) and value >= least


def _number(low, high):
    return lambda value: _is(Real, value) and low <= value < high


def _above_zero(value):
    return _is(Real, value) and 0 < value < float("inf")


def _is(kind, value):
    return isinstance(value, kind) and not isinstance(value, bool)


def _or_none(fits):
    return lambda value: value is None or fits(value)


# Those of Keras, which `keras_permix.training.schedules` finds there, and `BlockMuon`.
OPTIMIZERS = (
    "adadelta", "adafactor", "adagrad", "adam", "adamax", "adamw", "blockmuon", "ftrl", "lamb",
    "lion", "muon", "nadam", "rmsprop", "schedulefreeadamw", "sgd",
)  # fmt: skip
# As the Long Range Arena counts: step 0 learns nothing, and a cosine begins anew after its cycle.
OF_THE_ARENA = ("cosine_cycles", "rsqrt")
SCHEDULES = ("constant", "cosine", "cosine_epochs", "linear", *OF_THE_ARENA)
PRECISIONS = ("float32", "bfloat16", "float16", "mixed_bfloat16", "mixed_float16", "float64")

# Some arguments of Keras' optimizers, which takes them as they come.
OF_OPTIMIZERS = {
    **dict.fromkeys(
        ("beta_1", "beta_2", "ema_momentum", "momentum", "rho"),
        ("a number from 0 to 1, 1 excluded", _number(0, 1)),
    ),
    **dict.fromkeys(("amsgrad", "centered", "nesterov", "use_ema"), ("True or False", _flag)),
    "gradient_accumulation_steps": ("an integer, 2 or more, or None", _or_none(_integer(2))),
    "epsilon": ("a number above 0", _above_zero),
    **dict.fromkeys(
        ("clipnorm", "clipvalue", "global_clipnorm"),
        ("a number above 0, or None", _or_none(_above_zero)),
    ),
}
# Key -> the rule in words, and whether a value obeys it. A dict comes before what it holds.
RULES = {
    **dict.fromkeys(("model", "data", "augmentation", "optimizer", "schedule"), ("a dict", _dict)),
    "model.class_name": ("the name of a class of keras_permix.zoo", _string),
    "model.trainable": ("True or False", _flag),
    "model.dtype": ("left out, since `precision` says it", lambda value: value is None),
    "data.name": ("the name of a data set", _string),
    "data.path": ("the path of a folder, or None", _or_none(_string)),
    **dict.fromkeys(
        ("data.train", "data.test"),
        (
            "the path of a file, a number of samples, or None",
            _or_none(lambda value: _string(value) or _integer(1)(value)),
        ),
    ),
    "data.fields": ("a list of names", lambda value: not _string(value) and _names(value)),
    "data.splits": ("the names of two parts", _pair),
    "data.validation": (
        "the name of a part, a number of samples, or None",
        _or_none(lambda value: _string(value) or _integer(0)(value)),
    ),
    "data.test_fraction": (
        "a number between 0 and 1, or None",
        _or_none(lambda value: _is(Real, value) and 0 < value < 1),
    ),
    "data.split_seed": ("an integer, 0 or more", _integer(0)),
    "data.random_crop": ("True or False", _flag),
    "data.keep": (
        "a number above 0, and at most 1",
        lambda value: _is(Real, value) and 0 < value <= 1,
    ),
    "optimizer.name": _one_of(OPTIMIZERS),
    "optimizer.learning_rate": (
        "a number, 0 or more, and given anew with another `optimizer.name`",
        _number(0, float("inf")),
    ),
    **{f"optimizer.{name}": rule for name, rule in OF_OPTIMIZERS.items()},
    "optimizer.weight_decay": ("a number, 0 or more, or None", _or_none(_number(0, float("inf")))),
    "schedule.name": _one_of(SCHEDULES),
    "schedule.warmup_epochs": ("a number, 0 or more", _number(0, float("inf"))),
    "schedule.warmup_steps": ("an integer, 0 or more", _integer(0)),
    "schedule.warmup_start": ("a number, 0 or more", _number(0, float("inf"))),
    "schedule.warmup_power": ("a positive integer", _integer(1)),
    "schedule.total_steps": ("a positive integer", _integer(1)),
    "batch_size": ("a positive integer", _integer(1)),
    "epochs": ("a positive integer", _integer(1)),
    "steps_per_epoch": ("a positive integer, or None", _or_none(_integer(1))),
    "seed": ("an integer, 0 or more", _integer(0)),
    "precision": _one_of(PRECISIONS),
    "label_smoothing": ("a number from 0 to 1, 1 excluded", _number(0, 1)),
    "ema": ("a number from 0 to 1, 1 excluded, or None", _or_none(_number(0, 1))),
    "init": ("the name, folder or handle of a preset, or None", _or_none(_string)),
    "freeze": ('"backbone", names of layers, or None', _or_none(_names)),
    "validation_samples": ("a positive integer, or None", _or_none(_integer(1))),
    "test_samples": ("a positive integer, or None", _or_none(_integer(1))),
    "paper": ("a dict, or None", _or_none(_dict)),
}
OPTIONAL = (
    "model.class_name",
    "model.trainable",
    *(key for key in RULES if key.startswith("data.") and key != "data.name"),
    *(f"optimizer.{name}" for name in OF_OPTIMIZERS),
    "optimizer.weight_decay",
    *(key for key in RULES if key.startswith("schedule.warmup_")),
    "schedule.total_steps",
)
