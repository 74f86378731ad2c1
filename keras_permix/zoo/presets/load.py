"""Load presets: the model as it is stored, or changed."""

import warnings
from functools import partial
from typing import Any

from keras_permix._typing import Labels, Model, StrPath
from keras_permix.ops.backend import running
from keras_permix.utils.checks import plain
from keras_permix.zoo.presets.config import check_arguments, is_quantized, with_own_mixer
from keras_permix.zoo.presets.folder import CONFIG_FILE, METADATA_FILE, WEIGHTS_FILE
from keras_permix.zoo.presets.labels import check_labels
from keras_permix.zoo.presets.names import PresetInfo, find_preset, untrained
from keras_permix.zoo.presets.transfer import transfer_weights
from keras_permix.zoo.presets.weights import check_finite_weights, load_weights_content
from keras_permix.zoo.registry import MODELS

# Arguments that a preset may be loaded with as it is stored.
HARMLESS = {"dtype", "name", "trainable"}
# Those that a model fits its weights to, that only training knows, and that bring their meaning
# with them; also within a `mixer`.
FITTED = {
    *("num_classes", "predicts", "target_mean", "target_std", "targets"),
    *("image_size", "max_sequence_length", "position_resizing"),
    *("tokenizer", "steps_image_size"),
    *("dropout", "input_dropout", "hidden_dropout", "attention_dropout"),
    *("keep_unused_params", "ragged", "fused", "domain"),
}
HALF = ("float16", "bfloat16")  # to which a finite weight may overflow
SHOWN = 200  # characters of an argument in a warning


def load_preset(
    cls: type[Any] | None,
    preset: StrPath | PresetInfo,
    *,
    load_weights: bool = True,
    labels: Labels | None = None,
    **overrides: Any,
) -> Model:
    """Build the model of a preset; see `ZooModel.from_preset`.

    Args:
        cls: The class that the preset must be of, or `None` for any.
        preset: Name, folder or handle, or the `PresetInfo` of one.
        load_weights: Whether to load the weights.
        labels: Names of the outputs. `None`: the preset's, if the model has as many outputs.
        **overrides: Arguments of the model to change.
    """
    info = find_preset(preset, cls)
    found = MODELS[info.class_name]
    if cls is not None and found is not cls:
        raise ValueError(
            f"`{cls.__name__}.from_preset` loads presets of {cls.__name__}, and this one is of "
            f"{found.__name__}: use `{found.__name__}.from_preset`. Received: {str(preset)!r}"
        )
    if load_weights and (info.files is None or WEIGHTS_FILE not in info.files.names):
        raise ValueError(
            f"{untrained(info)}, or in Python pass `load_weights=False` for fresh ones. "
            "Received: load_weights=True"
        )
    if labels is not None and "num_classes" in info.config:
        overrides.setdefault("num_classes", len(labels))
    elif overrides.get("predicts") == "values" != info.config.get("predicts"):
        overrides.setdefault("num_classes", 1)
    # Without its name: Keras makes new ones, so that several presets stand in one model.
    config = {key: value for key, value in info.config.items() if key != "name"}
    if info.files:
        _check_size(info, config)
    _check_overrides(found, config, overrides)
    overrides = with_own_mixer(config, plain(overrides))
    if info.files:
        info.files.verify(skip=(WEIGHTS_FILE,))
        config |= {key: _asset(info, file) for key, file in found.asset_files.items()}
    changed = {key: value for key, value in overrides.items() if config.get(key) != value}
    if info.files and set(changed) <= HARMLESS:
        model = stored = _stored_model(info, found, config, overrides, load_weights)
    else:
        stored = _stored_model(info, found, config) if load_weights else None
        kept = found.keep_arguments(stored.get_config(), overrides) if stored else {}
        model = found.from_config({**config, **kept, **overrides})
    new_head = overrides.get("predicts", _predicts(config)) != _predicts(config)
    if labels is not None:
        model.labels = labels
    if load_weights and info.files:
        content = info.files.content(WEIGHTS_FILE)
        load_weights_content(stored, content, info.files.folder / WEIGHTS_FILE)
        if stored is not model:
            transfer_weights(stored, model, changed, new_head)
            _warn_of_other_meaning(config, changed)
        if model.variable_dtype in HALF:
            check_finite_weights(model, "Pass another `dtype`, which holds them")
    if labels is None and not new_head:
        model.labels = _stored_labels(info, model, changed)
    return model


def _predicts(config):
    return config.get("predicts", "class")


def _check_size(info, config):
    """Refuse a configuration of more layers than the file of weights can be of, before building."""
    size = info.files.metadata["files"].get(WEIGHTS_FILE, {"bytes": info.parameters})["bytes"]
    layers = config.get("num_layers", 1)
    if info.parameters > 2 * size or isinstance(layers, int) and layers > info.parameters:
        raise ValueError(
            f"`{info.files.folder / METADATA_FILE}` must give a `parameter_count` of at most 2 per "
            f"byte of weights and at least 1 per layer. Received: {info.parameters:,} parameters, "
            f"{size:,} bytes, {layers:,} layers"
        )


def _check_overrides(cls, config, overrides):
    check_arguments(cls, overrides)
    if is_quantized(config) and set(overrides) - {"name", "trainable"}:
        raise ValueError(
            "A quantized preset is loaded as it is: its weights fit no other dtype, head or size. "
            f"Received: {overrides}"
        )


def _warn_of_other_meaning(config, changed):
    """Say which arguments the weights were not trained with, though they fit."""
    units = (
        {"mean", "std", "target_units"} if "targets" in config else set()
    )  # of what a model answers
    told = [
        key
        for key in changed
        if key not in HARMLESS | FITTED | units
        and _trained(changed[key]) != _trained(config.get(key))
    ]
    if told:
        received = ", ".join(
            f"{key}={_short(changed[key])} for {_short(config.get(key))}" for key in told
        )
        warnings.warn(
            "Arguments must be those that the weights of a preset were trained with, or its "
            f"answers mean little until they are trained on. Received: {received}",
            stacklevel=4,
        )


def _trained(value):
    """What of an argument the weights were trained with."""
    if isinstance(value, dict):  # a mixer
        return {key: part for key, part in value.items() if key not in FITTED}
    if isinstance(value, tuple | list):  # of numbers, or of mixers
        return [_trained({"name": part} if isinstance(part, str) else part) for part in value]
    return value


def _short(value):
    text = repr(value)
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}…"


def _asset(info, file):
    """The text of a file that belongs to a preset, or `None` where it has none."""
    if file not in info.files.names:
        return None
    try:
        return info.files.content(file).decode("utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(
            f"`{info.files.folder / file}` must be a text in UTF-8. Received: {error}"
        ) from error


def _stored_labels(info, model, changed):
    """What a preset calls the outputs of a model; those of another head are forgotten."""
    labels, outputs = info.metadata.get("labels"), model.output_shape[-1]
    try:
        return check_labels(labels, outputs)
    except ValueError as error:
        if set(changed) <= HARMLESS:
            raise ValueError(
                f"`{info.files.folder / METADATA_FILE}` must name the outputs of its model. {error}"
            ) from error
        return None


def _stored_model(info, cls, config, overrides=None, load_weights=True):
    """The model of a preset, with as many weights as the preset says, which are still to be read.

    Without `load_weights` they are fresh.
    """
    path = info.files.folder / CONFIG_FILE
    make = partial(cls.from_config, {**config, **(overrides or {})})
    try:
        model = running.made_to_be_read(make) if load_weights else make()
    except Exception as error:  # Of wrong values, each layer and backend makes its own.
        if overrides:
            raise
        raise ValueError(
            f"`{path}` must hold a configuration that a {cls.__name__} can be built from. "
            f"Received: {type(error).__name__}: {error}"
        ) from error
    if model.count_params() != info.parameters:
        raise ValueError(
            f"The `parameter_count` of {info.files.folder / METADATA_FILE} must be that of the "
            f"model which {path} configures, {model.count_params():,}. "
            f"Received: {info.parameters:,}"
        )
    return model
