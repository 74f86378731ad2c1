"""Load presets: build the model, and read weights files, which are checked first.

Weights are read and written in memory. On disk, the HDF5 library may crash if the disk is full.
"""

import collections
import io
import warnings
from functools import partial
from typing import Any

import h5py
import keras
import numpy as np

from keras_permix._typing import Labels, Model, StrPath
from keras_permix.ops.backend import running
from keras_permix.utils.checks import check_labels, plain
from keras_permix.zoo.presets.folder import CONFIG_FILE, METADATA_FILE, WEIGHTS_FILE
from keras_permix.zoo.presets.names import PresetInfo, check_arguments, find_preset, untrained
from keras_permix.zoo.presets.transfer import HARMLESS, transfer_weights, warn_of_changes
from keras_permix.zoo.registry import MODELS

HALF = ("float16", "bfloat16")  # dtypes in which finite weights may overflow
LARGEST_ITEM = 8  # bytes of one number
LARGEST_CHUNK = 2**20  # numbers in a chunk, if larger than the array
BFLOAT16_EXPONENT = 0x7F80  # all of its bits are set in NaN and infinity


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
    _verify(info, load_weights)
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
    stored, model = _build(info, config, overrides, changed, load_weights)
    if labels is not None:
        model.labels = labels
    if load_weights and info.files:
        content = info.files.content(WEIGHTS_FILE)
        load_weights_content(stored, content, info.files.folder / WEIGHTS_FILE)
        if stored is not model:
            transfer_weights(stored, model, changed, new_head)
            warn_of_changes(config, changed)
        if model.variable_dtype in HALF:
            check_finite_weights(model, "Pass a `dtype` with a larger range")
    if labels is None and not new_head:
        model.labels = _stored_labels(info, model, changed)
    return model


def _verify(info, load_weights):
    """Verify `parameter_count`, and all files except the weights, which are verified when read."""
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


def _stored_config(info, cls):
    """Return the arguments of a preset, with the texts of its files and without the name."""
    config = {key: value for key, value in info.config.items() if key != "name"}
    for key, file in cls.asset_files.items() if info.files else ():
        try:
            found = file in info.files.names
            config[key] = info.files.content(file).decode("utf-8") if found else None
        except UnicodeDecodeError as error:
            raise ValueError(
                f"`{info.files.folder / file}` must be UTF-8 text. Received: {error}"
            ) from error
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


def _build(info, config, overrides, changed, load_weights):
    """Return the model that a preset stores, and the model to return, which may be the same."""
    cls = MODELS[info.class_name]
    if info.files and set(changed) <= HARMLESS:
        model = _build_stored(info, config, overrides, load_weights)
        return model, model
    stored = _build_stored(info, config) if load_weights else None
    kept = cls.keep_arguments(stored.get_config(), overrides) if stored else {}
    return stored, cls.from_config({**config, **kept, **overrides})


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


def _stored_labels(info, model, changed):
    """Return the labels of a preset, or `None` for a model with another head."""
    try:
        return check_labels(info.metadata.get("labels"), model.output_shape[-1])
    except ValueError as error:
        if set(changed) <= HARMLESS:
            raise ValueError(
                f"`{info.files.folder / METADATA_FILE}` must name the outputs of its model. {error}"
            ) from error
        return None


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
    """Load the bytes of a weights file, which must contain exactly the weights of the model.

    Shapes are compared before an array is read.

    Args:
        model: A built model. If it is compiled, the optimizer state is loaded as well.
        content: The bytes of the file.
        path: Path of the file, for the error.
    """
    try:
        with h5py.File(io.BytesIO(content)) as file:
            _check_datasets(file, model)
        model.load_weights(_WeightsFile(content))  # Keras checks the paths.
    except Exception as error:  # h5py raises many kinds of errors for damaged files.
        kind = "" if type(error) is ValueError else f"{type(error).__name__}: "
        raise ValueError(
            f"`{path}` must contain exactly the weights of its model, all finite; it is damaged or "
            f"of another model. Copy or download it again. Received: {kind}{error}"
        ) from error


def _check_datasets(file, model):
    """Check that arrays have the shapes of the model's weights, before any is read."""
    found, compiled = {}, getattr(model, "optimizer", None) is not None

    def visit(name, item):  # follows no links
        # The arrays of an optimizer are unknown.
        if isinstance(item, h5py.Dataset) and not (compiled and name.startswith("optimizer/")):
            found[name] = item

    file.visititems(visit)
    for name, dataset in found.items():
        if not _is_plain(dataset):
            raise ValueError(f"`{name}`, {dataset.dtype}, which is not a plain array")
    needed = collections.Counter(
        (tuple(weight.shape), "float" in keras.backend.standardize_dtype(weight.dtype))
        for weight in model.weights
    )
    for name, dataset in sorted(found.items()):
        # Keras stores bfloat16 as two opaque bytes.
        key = dataset.shape, dataset.dtype.kind in "fV"
        if not needed[key]:
            raise ValueError(
                f"`{name}`, {dataset.dtype} of shape {dataset.shape}, which belongs to no layer"
            )
        needed[key] -= 1
    if missing := [shape for shape, _ in needed.elements()]:
        raise ValueError(f"a file without {len(missing)} weights, of shapes {missing[:4]}")
    for name, dataset in found.items():
        value = np.asarray(dataset[()])
        if value.dtype.kind == "V":
            finite = (value.view("uint16") & BFLOAT16_EXPONENT) != BFLOAT16_EXPONENT
        else:
            finite = np.isfinite(value)
        if not finite.all():
            raise ValueError(f"`{name}`, which is not finite")


def _is_plain(dataset):
    kind, size = dataset.dtype.kind, dataset.dtype.itemsize
    right = dataset.dtype == "V2" if kind == "V" else kind in "fiub" and size <= LARGEST_ITEM
    chunk = int(np.prod(dataset.chunks or 0))
    right = right and chunk <= max(dataset.size, LARGEST_CHUNK)
    return right and not dataset.external and not dataset.is_virtual


def check_finite_weights(
    model: Model, remedy: str = "Train again from an earlier checkpoint"
) -> None:
    """Check that a model has no weights of NaN or infinity; an error gives `remedy` as advice."""
    for weight in model.weights:
        if "float" in keras.backend.standardize_dtype(weight.dtype):
            value = keras.ops.convert_to_numpy(weight.value).astype("float32")
            if not np.isfinite(value).all():
                raise ValueError(
                    f"The weights of a preset must be finite. {remedy}. "
                    f"Received: `{weight.path}` with {value[~np.isfinite(value)][0]}"
                )
