"""Write a model as a preset folder."""

import contextlib
import datetime
import io
import json
from pathlib import Path, PurePosixPath
from typing import Any

import h5py
import keras
import numpy as np

from keras_permix._typing import Model, StrPath
from keras_permix.utils.checks import check_choice, check_labels, check_names
from keras_permix.utils.files import LEFTOVER, replacing_folder, sha256_of, write_bytes
from keras_permix.zoo.presets.folder import (
    CONFIG_FILE,
    METADATA_FILE,
    PREPROCESSOR_FILE,
    PRESET_FILES,
    TASK_FILE,
    WEIGHTS_FILE,
    open_preset,
)
from keras_permix.zoo.presets.load import (
    check_finite_weights,
    is_quantized,
    load_weights_content,
    weights_content,
)
from keras_permix.zoo.presets.names import check_plain
from keras_permix.zoo.presets.probe import ATOL, QUANTIZED_ATOL, make_probe
from keras_permix.zoo.registry import MODELS

METADATA_KEYS = (
    "labels", "data", "data_options", "recipe", "command", "commit", "license", "scores", "epochs"
)  # fmt: skip
WEIGHTS_DTYPES = (None, "float16", "float32")


def save_preset(
    model: Model,
    folder: StrPath,
    *,
    weights_dtype: str | None = None,
    **metadata: Any,
) -> None:
    """Write `model` as a preset; see `ZooModel.save_to_preset`."""
    spec = _serialize_model(model)
    check_choice("weights_dtype", weights_dtype, WEIGHTS_DTYPES)
    check_names("`metadata`", metadata, METADATA_KEYS)
    if metadata.get("labels") is None:
        metadata["labels"] = model.labels
    metadata["labels"] = check_labels(metadata["labels"], model.output_shape[-1])
    _check_replaceable(Path(folder))
    objects = {
        CONFIG_FILE: spec,
        TASK_FILE: {"task": model.task, **model.describe_output(), "labels": metadata["labels"]},
    }
    if model.preprocessor is not None:
        layer = keras.layers.serialize(model.preprocessor)
        objects[PREPROCESSOR_FILE] = {key: layer[key] for key in spec}
    contents = {name: _json_content(value) for name, value in objects.items()} | model.assets()
    contents[WEIGHTS_FILE] = pack_weights(weights_content(model), weights_dtype)
    files = {
        name: {"bytes": len(content), "sha256": sha256_of(content)}
        for name, content in sorted(contents.items())
    }
    quantized = is_quantized(spec["config"])
    config = spec["config"] if quantized else {**spec["config"], "dtype": "float32"}
    stored = type(model).from_config(config)
    load_weights_content(stored, contents[WEIGHTS_FILE], WEIGHTS_FILE)
    check_finite_weights(stored)
    about = {
        "keras_version": keras.__version__,
        "parameter_count": stored.count_params(),
        "date_saved": datetime.datetime.now().strftime("%Y-%m-%d@%H:%M:%S"),
        "files": files,
        "input": model.describe_input(),
        **{key: metadata.get(key) for key in METADATA_KEYS},
        "probe": make_probe(stored, QUANTIZED_ATOL if quantized else ATOL),
    }
    contents[METADATA_FILE] = _json_content(about)
    with replacing_folder(folder) as partial:
        for name, content in contents.items():
            (partial / name).parent.mkdir(parents=True, exist_ok=True)
            write_bytes(partial / name, content)


def _serialize_model(model: Model) -> dict[str, Any]:
    """Return the object for `config.json`, without compile state and the content of other files."""
    name = type(model).__name__
    if MODELS.get(name) is not type(model):
        rule = "A preset must be of a class of keras_permix.zoo. For others, use `model.save`"
        raise ValueError(f"{rule}. Received: {type(model).__module__}.{name}")
    elsewhere = {"labels", "trainable", "frozen", *model.asset_files}
    config = {key: value for key, value in model.get_config().items() if key not in elsewhere}
    check_plain(config, model.name)
    return {
        "module": "keras_permix.zoo",
        "class_name": name,
        "config": config,
        "registered_name": f"keras_permix>{name}",
    }


def _json_content(value):
    text = json.dumps(
        value, indent=2, ensure_ascii=False, allow_nan=False, default=lambda array: array.tolist()
    )
    return (text + "\n").encode("utf-8")


def pack_weights(content: bytes, dtype: str | None = None) -> bytes:
    """Make a weights file compact: omit the optimizer, and cast floating arrays to `dtype`."""
    packed = io.BytesIO()
    # Groups in the format of HDF5 1.8 take a third of the space, which matters for small models.
    with (
        h5py.File(io.BytesIO(content)) as old,
        h5py.File(packed, "w", libver=("v108", "latest")) as new,
    ):
        _copy_group(old, new, dtype)
    return packed.getvalue()


def _copy_group(old, new, dtype):
    new.attrs.update(old.attrs)
    for name, item in old.items():
        if item.name == "/optimizer":
            continue
        if isinstance(item, h5py.Group):
            _copy_group(item, new.create_group(name), dtype)
            continue
        value, attributes = item[()], dict(item.attrs)
        if dtype and attributes.get("dtype") == "bfloat16":
            value = (value.view("<u2").astype("uint32") << 16).view("float32")
            del attributes["dtype"]
        if dtype and value.dtype.kind == "f":
            with np.errstate(over="ignore"):
                value = value.astype(dtype)
        new.create_dataset(name, data=value).attrs.update(attributes)


def _check_replaceable(folder):
    """Check that a folder holds only files of a preset, which may be removed."""
    if folder.is_file():
        raise NotADirectoryError(f"`folder` must not be a file. Received: {folder}")
    known = set(PRESET_FILES)
    with contextlib.suppress(OSError, ValueError):  # no preset, or a damaged one
        known |= set(open_preset(folder).names)
    folders = {str(parent) for name in known for parent in PurePosixPath(name).parents}
    foreign = []
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if name not in (folders if path.is_dir() else known) and not LEFTOVER.fullmatch(name):
            foreign.append(name)
    if foreign:
        rule = "`folder` must be new, empty, or a preset"
        raise ValueError(f"{rule}. Received: {folder} with {foreign[:8]}")
