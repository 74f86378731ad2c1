"""Load presets, and transfer their weights to changed models."""

import warnings
from functools import partial
from typing import Any

from keras_permix._typing import Labels, Model, StrPath
from keras_permix.ops.backend import running
from keras_permix.utils.checks import check_labels, plain
from keras_permix.zoo.parts import check_arguments
from keras_permix.zoo.presets.folder import CONFIG_FILE, METADATA_FILE, WEIGHTS_FILE
from keras_permix.zoo.presets.names import PresetInfo, find_preset, untrained
from keras_permix.zoo.presets.transfer import transfer_weights
from keras_permix.zoo.presets.weights import check_finite_weights, load_weights_content
from keras_permix.zoo.registry import MODELS

# Arguments that do not require another model than the stored one.
HARMLESS = {"dtype", "name", "trainable"}
# Arguments, also of a `mixer`, that keep the weights valid: the model resizes weights for them, or
# they are used only in training.
FITTED = {
    *("num_classes", "predicts", "target_mean", "target_std", "targets"),
    *("image_size", "max_sequence_length", "position_resizing"),
    *("tokenizer", "steps_image_size"),
    *("dropout", "input_dropout", "hidden_dropout", "attention_dropout"),
    *("keep_unused_params", "ragged", "fused", "domain"),
}
HALF = ("float16", "bfloat16")  # dtypes in which finite weights may overflow
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
        cls: The required class of the preset, or `None` for any.
        preset: Name, folder, handle or `PresetInfo` of a preset.
        load_weights: Whether to load the weights.
        labels: Names of the outputs. `None`: those of the preset, if the number of outputs is the
            same.
        **overrides: Arguments of the model to change.
    """
    info = find_preset(preset, cls)
    verify_preset(info, load_weights)
    model_class = MODELS[info.class_name]
    if labels is not None:
        outputs = "num_classes" if "num_classes" in info.config else "targets"
        overrides.setdefault(outputs, len(labels))
    predicts = info.config.get("predicts", "class")
    new_head = overrides.get("predicts", predicts) != predicts
    if new_head and overrides["predicts"] == "values":
        overrides.setdefault("num_classes", 1)
    config = _stored_config(info, model_class)
    check_arguments(model_class, overrides)
    if is_quantized(config) and set(overrides) - {"name", "trainable"}:
        raise ValueError(
            "A quantized preset supports no other arguments: its weights do not match another "
            f"dtype, head or size. Received: {overrides}"
        )
    overrides = _with_own_mixer(config, plain(overrides))
    changed = {key: value for key, value in overrides.items() if config.get(key) != value}
    stored, model = build_models(info, config, overrides, changed, load_weights)
    if labels is not None:
        model.labels = labels
    if load_weights and info.files:
        content = info.files.content(WEIGHTS_FILE)
        load_weights_content(stored, content, info.files.folder / WEIGHTS_FILE)
        if stored is not model:
            transfer_weights(stored, model, changed, new_head)
            _warn_of_other_meaning(config, changed)
        if model.variable_dtype in HALF:
            check_finite_weights(model, "Pass a `dtype` with a larger range")
    if labels is None and not new_head:
        model.labels = _stored_labels(info, model, changed)
    return model


def verify_preset(info: PresetInfo, load_weights: bool = True) -> None:
    """Verify the files of a preset except the weights, and its `parameter_count`.

    The weights are verified when they are read.

    Raises:
        ValueError: for missing weights, a damaged file or a wrong `parameter_count`.
    """
    files, parameters = info.files, info.parameters or 0
    if load_weights and (files is None or WEIGHTS_FILE not in files.names):
        raise ValueError(
            f"{untrained(info)}, or in Python pass `load_weights=False` for random weights. "
            "Received: load_weights=True"
        )
    if files is None:
        return
    size = files.metadata["files"].get(WEIGHTS_FILE, {"bytes": parameters})["bytes"]
    layers = info.config.get("num_layers", 1)
    if parameters > 2 * size or isinstance(layers, int) and layers > parameters:
        raise ValueError(
            f"`{files.folder / METADATA_FILE}` must give a `parameter_count` of at most 2 per byte "
            f"of weights and at least 1 per layer. Received: {parameters:,} parameters, "
            f"{size:,} bytes, {layers:,} layers"
        )
    files.verify(skip=(WEIGHTS_FILE,))


def build_models(
    info: PresetInfo,
    config: dict[str, Any],
    overrides: dict[str, Any],
    changed: dict[str, Any],
    load_weights: bool,
) -> tuple[Model | None, Model]:
    """Build the model that a preset stores, and the model to return, which may be the same.

    Args:
        info: The preset.
        config: Arguments of the preset.
        overrides: Arguments that replace those of the preset.
        changed: The overrides that differ from the preset.
        load_weights: Whether weights are read afterwards. If False, no stored model is needed.
    """
    cls = MODELS[info.class_name]
    if info.files and set(changed) <= HARMLESS:
        model = _build_stored(info, config, overrides, load_weights)
        return model, model
    stored = _build_stored(info, config) if load_weights else None
    kept = cls.keep_arguments(stored.get_config(), overrides) if stored else {}
    return stored, cls.from_config({**config, **kept, **overrides})


def is_quantized(config: dict[str, Any]) -> bool:
    """Return whether layers of the configured model have quantized weights."""
    dtype = config.get("dtype")
    return isinstance(dtype, dict) and dtype.get("class_name") == "DTypePolicyMap"


def _stored_config(info, cls):
    """Return the arguments of a preset, with the texts of its files and without the name."""
    config = {key: value for key, value in info.config.items() if key != "name"}
    if info.files:
        config |= {key: _asset(info, file) for key, file in cls.asset_files.items()}
    return config


def _warn_of_other_meaning(config, changed):
    """Warn about changed arguments for which the weights must be trained again."""
    units = {"mean", "std", "target_units"} if "targets" in config else set()
    differing = [
        key
        for key in changed
        if key not in HARMLESS | FITTED | units
        and _trained(changed[key]) != _trained(config.get(key))
    ]
    if differing:
        received = ", ".join(
            f"{key}={_short(changed[key])} instead of {_short(config.get(key))}"
            for key in differing
        )
        warnings.warn(
            "A preset predicts well only with the arguments that its weights were trained with. "
            f"Train the model again. Received: {received}",
            stacklevel=4,
        )


def _trained(value):
    """Return the parts of an argument that the weights depend on."""
    if isinstance(value, dict):  # a mixer
        return {key: part for key, part in value.items() if key not in FITTED}
    if isinstance(value, tuple | list):  # of numbers, or of mixers
        return [_trained({"name": part} if isinstance(part, str) else part) for part in value]
    return value


def _short(value):
    text = repr(value)
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}…"


def _asset(info, file):
    """Return the text of a file of a preset, or `None` without such a file."""
    if file not in info.files.names:
        return None
    try:
        return info.files.content(file).decode("utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(
            f"`{info.files.folder / file}` must be UTF-8 text. Received: {error}"
        ) from error


def _stored_labels(info, model, changed):
    """Return the labels of a preset, or `None` for a model with another head."""
    labels, outputs = info.metadata.get("labels"), model.output_shape[-1]
    try:
        return check_labels(labels, outputs)
    except ValueError as error:
        if set(changed) <= HARMLESS:
            raise ValueError(
                f"`{info.files.folder / METADATA_FILE}` must name the outputs of its model. {error}"
            ) from error
        return None


def _build_stored(info, config, overrides=None, load_weights=True):
    """Build the model of a preset, which must have the listed number of parameters."""
    cls, path = MODELS[info.class_name], info.files.folder / CONFIG_FILE
    make = partial(cls.from_config, {**config, **(overrides or {})})
    try:
        model = running.made_to_be_read(make) if load_weights else make()
    except Exception as error:  # Layers and backends raise different errors for wrong values.
        if overrides:
            raise
        raise ValueError(
            f"`{path}` must contain a valid configuration of {cls.__name__}. "
            f"Received: {type(error).__name__}: {error}"
        ) from error
    if model.count_params() != info.parameters:
        raise ValueError(
            f"The `parameter_count` of {info.files.folder / METADATA_FILE} must be that of the "
            f"model in {path}, {model.count_params():,}. Received: {info.parameters:,}"
        )
    return model


def _with_own_mixer(config: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """Complete a changed mixer of the same name by the arguments in the preset."""
    own, given = config.get("mixer"), changes.get("mixer")
    given = {"name": given} if isinstance(given, str) else given
    if not isinstance(own, dict) or not isinstance(given, dict):
        return changes
    if given.get("name", own.get("name")) != own.get("name"):
        return changes
    return {**changes, "mixer": {**own, **given}}
