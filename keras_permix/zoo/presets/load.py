"""Load presets: build the model, and read weights files.

Weights are read and written in memory. On disk, the HDF5 library may crash if the disk is full.
"""

import io
import warnings
from typing import Any

import keras
import numpy as np

from keras_permix._typing import Labels, Model, StrPath
from keras_permix.ops.backend import running
from keras_permix.utils.checks import plain
from keras_permix.zoo.presets.folder import WEIGHTS_FILE
from keras_permix.zoo.presets.names import PresetInfo, check_arguments, find_preset, untrained
from keras_permix.zoo.presets.transfer import HARMLESS, transfer_weights, warn_of_changes
from keras_permix.zoo.registry import MODELS


def load_preset(
    cls: type[Any] | None,
    preset: StrPath | PresetInfo,
    *,
    load_weights: bool = True,
    labels: Labels | None = None,
    **overrides: Any,
) -> Model:
    """Build the model of a preset of class `cls`, or of any; see `ZooModel.from_preset`."""
    info = find_preset(preset, cls)
    if load_weights and (info.files is None or WEIGHTS_FILE not in info.files.names):
        raise ValueError(f"{untrained(info)}. Received: load_weights=True")
    if info.files:
        info.files.verify(skip=(WEIGHTS_FILE,))  # The weights are verified when they are read.
    model_class = MODELS[info.class_name]
    if labels is not None:
        outputs = "num_classes" if "num_classes" in info.config else "targets"
        overrides.setdefault(outputs, len(labels))
    stored_labels = tuple(info.metadata.get("labels") or ())
    predicts = info.config.get("predicts", "class")
    new_head = overrides.get("predicts", predicts) != predicts
    if new_head and overrides["predicts"] == "values":
        overrides.setdefault("num_classes", 1)
    if labels is not None and stored_labels:
        new_head = new_head or tuple(plain(labels)) != stored_labels
    config = _stored_config(info, model_class)
    check_arguments(model_class, overrides)
    overrides = _with_own_mixer(config, plain(overrides))
    changed = {key: value for key, value in overrides.items() if config.get(key) != value}
    if is_quantized(config) and (new_head or changed.keys() - {"name", "trainable"}):
        raise ValueError(f"A quantized preset supports no other arguments. Received: {overrides}")
    if load_weights and info.files:
        harmless = changed.keys() <= HARMLESS and not new_head
        chosen = {**config, **overrides} if harmless else config
        stored = model = running.made_to_be_read(lambda: model_class.from_config(chosen))
        content = info.files.content(WEIGHTS_FILE)
        load_weights_content(stored, content, info.files.folder / WEIGHTS_FILE)
        if not harmless:
            kept = model_class.keep_arguments(stored.get_config(), overrides, new_head)
            model = model_class.from_config({**config, **kept, **overrides})
            transfer_weights(stored, model, changed, new_head)
            warn_of_changes(config, changed)
        check_finite_weights(model)
    else:
        kept = model_class.keep_arguments(config, overrides, new_head)
        if "steps_image_size" in kept:  # Random weights need no steps of the old size.
            kept["steps_image_size"] = None
        model = model_class.from_config({**config, **kept, **overrides})
    if labels is not None:
        model.labels = labels
    elif not new_head and len(stored_labels) == model.output_shape[-1]:
        model.labels = stored_labels
    return model


def _stored_config(info, cls):
    """Return the arguments of a preset, with the texts of its files and without the name."""
    config = {key: value for key, value in info.config.items() if key != "name"}
    for key, file in cls.asset_files.items() if info.files else ():
        found = file in info.files.names
        config[key] = info.files.content(file).decode("utf-8") if found else None
    return config


def is_quantized(config: dict[str, Any]) -> bool:
    """Return whether layers of the configured model have quantized weights."""
    dtype = config.get("dtype")
    return isinstance(dtype, dict) and dtype.get("class_name") == "DTypePolicyMap"


def _with_own_mixer(config, changes):
    """Complete a changed mixer of the same name by the arguments in the preset."""
    own, given = config.get("mixer"), changes.get("mixer")
    given = {"name": given} if isinstance(given, str) else given
    if isinstance(own, dict) and isinstance(given, dict):
        if given.get("name", own.get("name")) == own.get("name"):
            return {**changes, "mixer": {**own, **given}}
    return changes


class _WeightsFile(io.BytesIO):
    """Name a file in memory with the extension that Keras requires."""

    def __str__(self):
        return "in_memory.weights.h5"


def weights_content(model: Model) -> bytes:
    """Return the bytes of a `.weights.h5` file of a model, with its optimizer's state."""
    file = _WeightsFile()
    with warnings.catch_warnings():
        # Keras 3.15 converts variables in a way that NumPy 2.5 deprecates.
        warnings.filterwarnings("ignore", "__array__ implementation", DeprecationWarning)
        model.save_weights(file)
    return file.getvalue()


def load_weights_content(model: Model, content: bytes, path: StrPath) -> None:
    """Load the bytes of a weights file; Keras checks the paths and shapes of the weights.

    Args:
        model: A built model. If it is compiled, the optimizer state is loaded as well.
        content: The bytes of the file.
        path: Path of the file, for the error.
    """
    try:
        model.load_weights(_WeightsFile(content))
    except Exception as error:  # h5py raises many kinds of errors for damaged files.
        raise ValueError(f"`{path}` must hold weights of the model. Received: {error}") from error


def check_finite_weights(model: Model) -> None:
    """Raise ValueError if a model has weights of NaN or infinity."""
    for weight in model.weights:
        value = keras.ops.convert_to_numpy(weight.value).astype("float32")
        if not np.isfinite(value).all():
            rule = "Weights must be finite, also in the `dtype` or `weights_dtype` of a preset"
            found = value[~np.isfinite(value)][0]
            raise ValueError(f"{rule}. Received: `{weight.path}` with {found}")
