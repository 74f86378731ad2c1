"""From the `config.json` of a preset to a model, without running anything a preset says."""

import inspect
from collections.abc import Iterable
from typing import Any

from keras_permix._typing import Model, StrPath
from keras_permix.layers.mixers import MIXERS, arguments_of
from keras_permix.utils.checks import check_names
from keras_permix.zoo.registry import MODELS

# Dtype policies are the only Keras objects that the configuration of a model may name.
POLICY_MODULES = ("keras", "keras.dtype_policies")
POLICIES = (
    "DTypePolicy",
    "DTypePolicyMap",
    "Int4DTypePolicy",
    "QuantizedDTypePolicy",
    "QuantizedFloat8DTypePolicy",
)


def serialize_model(model: Model) -> dict[str, Any]:
    """What `config.json` says of a model: no compile state, and nothing that other files tell.

    Raises:
        ValueError: if the model is of no class of the zoo, or has a custom layer as its `mixer`.
    """
    name = type(model).__name__
    if MODELS.get(name) is not type(model):
        raise ValueError(
            f"A preset is of a class of keras_permix.zoo: {', '.join(MODELS)}. "
            f"Save another model with `model.save`. Received: {type(model).__module__}.{name}"
        )
    elsewhere = {"labels", *model.asset_files}
    config = {key: value for key, value in model.get_config().items() if key not in elsewhere}
    _check_plain(config, f"{model.name}, which `model.save` keeps whole,")
    return {
        "module": "keras_permix.zoo",
        "class_name": name,
        "config": config,
        "registered_name": f"keras_permix>{name}",
    }


def model_class(spec: dict[str, Any], path: StrPath) -> type[Any]:
    """The class of the zoo that the object of a `config.json` names, its configuration checked.

    Raises:
        ValueError: for another class, or a configuration that names any object but dtype policies.
    """
    name: Any = spec.get("class_name")
    module = spec.get("module")
    right = module == "keras_permix.zoo" and spec.get("registered_name") == f"keras_permix>{name}"
    known = isinstance(name, str) and name in MODELS
    if not known or not right or not isinstance(spec.get("config"), dict):
        raise ValueError(
            "The configuration of a preset must be of a class of keras_permix.zoo "
            f"({', '.join(MODELS)}); nothing else is built. "
            f"Received: {path} with class_name={name!r}, module={module!r}, "
            f"registered_name={spec.get('registered_name')!r}"
        )
    _check_plain(spec["config"], path)
    unknown = sorted(set(spec["config"]) - set(arguments(MODELS[name])))
    if unknown:
        raise ValueError(
            f"The configuration of a preset must hold arguments of {name}. It may come from a "
            f"newer keras_permix. Received: {path} with {unknown}"
        )
    return MODELS[name]


def arguments(cls: type[Any]) -> list[str]:
    """Names of the arguments that a model of the zoo takes."""
    names = inspect.signature(cls.__init__).parameters
    own = (name for name in names if name not in ("self", "kwargs"))
    return [*own, *cls.head_arguments, "labels", "name", "trainable"]


def collect_arguments(variables: dict[str, Any]) -> dict[str, Any]:
    """Collect the arguments that the constructor of a model was called with.

    Args:
        variables: The `locals()` of its first line.

    Returns:
        A dict of the model's configuration, without `self`, `dtype` and `kwargs`. If `num_classes`
        is `None`, it is the number of `labels`, or the default of the class.

    Raises:
        ValueError: for `kwargs` that the model does not take.
    """
    cls, given = type(variables["self"]), variables["kwargs"]
    check_arguments(cls, given)
    others = ("self", "dtype", "kwargs", "__class__")
    config = {name: value for name, value in variables.items() if name not in others}
    if "num_classes" in config and config["num_classes"] is None:
        default = 1 if given.get("predicts") == "values" else cls.default_classes
        labels = given.get("labels")
        config["num_classes"] = len(labels) if isinstance(labels, list | tuple) else default
    return config


def check_arguments(cls: type[Any], given: Iterable[str]) -> None:
    """Refuse names that are no arguments of a model of the zoo, nor to be given to its mixer."""
    known, given = arguments(cls), list(given)
    try:
        check_names(cls.__name__, given, known)
    except ValueError as error:
        hints = [_hint(name) for name in sorted(set(given) - set(known)) if "mixer" in known]
        raise ValueError("".join((str(error), *hints))) from None


def _hint(name):
    """Which mixers take an argument that a model does not."""
    takers = [mixer for mixer in MIXERS if name in arguments_of(mixer)]
    if not takers:
        return ""
    return f" `{name}` is said with a `mixer` that takes it: {', '.join(takers)}."


def is_quantized(config: dict[str, Any]) -> bool:
    """Whether layers of the configured model have quantized weights."""
    dtype = config.get("dtype")
    return isinstance(dtype, dict) and dtype.get("class_name") == "DTypePolicyMap"


def _check_plain(value, path):
    if isinstance(value, dict):
        if {"class_name", "module", "registered_name"} & set(value):
            _check_policy(value, path)
        for part in value.values():
            _check_plain(part, path)
    elif isinstance(value, list):
        for part in value:
            _check_plain(part, path)


def _check_policy(value, path):
    known = value.get("class_name") in POLICIES and value.get("module") in POLICY_MODULES
    if not known or value.get("registered_name") is not None:
        raise ValueError(
            "The configuration of a preset may name no object but Keras' dtype policies. "
            f"Received: {path} with class_name={value.get('class_name')!r}, "
            f"module={value.get('module')!r}, registered_name={value.get('registered_name')!r}"
        )


def with_own_mixer(config: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """Changes of a configuration, whose mixer, if it has the same name, keeps its other arguments.

    The weights were trained with these.
    """
    own, given = config.get("mixer"), changes.get("mixer")
    given = {"name": given} if isinstance(given, str) else given
    if not isinstance(own, dict) or not isinstance(given, dict):
        return changes
    if given.get("name", own.get("name")) != own.get("name"):
        return changes
    return {**changes, "mixer": {**own, **given}}
