"""Write a model as a preset folder."""

import contextlib
import datetime
import io
import json
import math
from pathlib import Path, PurePosixPath
from typing import Any

import h5py
import keras
import numpy as np

from keras_permix._typing import Model, StrPath
from keras_permix.utils.checks import check_choice, check_labels, check_names
from keras_permix.utils.files import LEFTOVER, replacing_folder, write_bytes
from keras_permix.zoo.presets.folder import (
    CONFIG_FILE,
    METADATA_FILE,
    PREPROCESSOR_FILE,
    PRESET_FILES,
    TASK_FILE,
    WEIGHTS_FILE,
    check_file_names,
    entry_of,
    open_preset,
)
from keras_permix.zoo.presets.load import (
    check_finite_weights,
    is_quantized,
    load_weights_content,
    weights_content,
)
from keras_permix.zoo.presets.names import check_plain, model_class
from keras_permix.zoo.presets.probe import ATOL, QUANTIZED_ATOL, make_probe
from keras_permix.zoo.registry import MODELS

METADATA_KEYS = (
    "labels", "data", "data_options", "recipe", "command", "commit", "license", "scores"
)  # fmt: skip
WEIGHTS_DTYPES = (None, "float16", "float32")


def save_preset(
    model: Model,
    folder: StrPath,
    *,
    weights_dtype: str | None = None,
    urls: dict[str, str] | None = None,
    **metadata: Any,
) -> None:
    """Write `model` as a preset; see `ZooModel.save_to_preset`."""
    spec = _serialize_model(model)
    check_choice("weights_dtype", weights_dtype, WEIGHTS_DTYPES)
    check_names("`metadata`", metadata, METADATA_KEYS)
    if metadata.get("labels") is None:
        metadata["labels"] = model.labels
    metadata["labels"] = check_labels(metadata["labels"], model.output_shape[-1])
    with _explained(folder):
        _check_replaceable(folder)
    check_finite_weights(model)
    objects = {
        CONFIG_FILE: spec,
        TASK_FILE: {"task": model.task, **model.describe_output(), "labels": metadata["labels"]},
    }
    if model.preprocessor is not None:
        layer = keras.layers.serialize(model.preprocessor)
        objects[PREPROCESSOR_FILE] = {key: layer[key] for key in spec}
    assets = model.assets()
    if wrong := sorted(set(assets) & set(PRESET_FILES)):
        raise ValueError(f"`model.assets()` may not replace {wrong[0]}. Received: {wrong}")
    contents = {name: json_content(value, name) for name, value in objects.items()} | assets
    contents[WEIGHTS_FILE] = pack_weights(weights_content(model), weights_dtype)
    check_file_names(contents, "`model.assets()`")
    files = {name: entry_of(content) for name, content in sorted(contents.items())}
    check_names("`urls`", urls or {}, files)
    for name, url in (urls or {}).items():
        files[name]["url"] = url
    quantized = is_quantized(spec["config"])
    config = spec["config"] if quantized else {**spec["config"], "dtype": "float32"}
    stored = model_class(spec, CONFIG_FILE).from_config(config)
    load_weights_content(stored, contents[WEIGHTS_FILE], WEIGHTS_FILE)
    about = {
        "keras_version": keras.__version__,
        "parameter_count": stored.count_params(),
        "date_saved": datetime.datetime.now().strftime("%Y-%m-%d@%H:%M:%S"),
        "files": files,
        "input": model.describe_input(),
        **{key: metadata.get(key) for key in METADATA_KEYS},
        "probe": make_probe(stored, QUANTIZED_ATOL if quantized else ATOL),
    }
    contents[METADATA_FILE] = json_content(about, METADATA_FILE)
    with _explained(folder), replacing_folder(folder) as partial:
        for name, content in contents.items():
            (partial / name).parent.mkdir(parents=True, exist_ok=True)
            write_bytes(partial / name, content)
        _check_replaceable(folder)


def _serialize_model(model: Model) -> dict[str, Any]:
    """Return the object for `config.json`, without compile state and the content of other files."""
    name = type(model).__name__
    if MODELS.get(name) is not type(model):
        raise ValueError(
            f"A preset must be of a class of keras_permix.zoo: {', '.join(MODELS)}. "
            f"Save other models with `model.save`. Received: {type(model).__module__}.{name}"
        )
    elsewhere = {"labels", *model.asset_files}
    config = {key: value for key, value in model.get_config().items() if key not in elsewhere}
    check_plain(config, f"{model.name} (use `model.save` instead)")
    return {
        "module": "keras_permix.zoo",
        "class_name": name,
        "config": config,
        "registered_name": f"keras_permix>{name}",
    }


def json_content(value: Any, name: str) -> bytes:
    """Return an object as the bytes of an indented JSON file; NaN and infinity raise ValueError."""
    value = json.loads(json.dumps(value, default=lambda array: array.tolist()))
    if wrong := _first_not_finite(value):
        raise ValueError(f"`{name}` must contain only finite numbers. Received: {wrong}")
    return (json.dumps(value, indent=2, ensure_ascii=False) + "\n").encode("utf-8")


def _first_not_finite(value, where=""):
    """Return the path and value of the first number that is not finite, or None."""
    if isinstance(value, float) and not math.isfinite(value):
        return f"{where.lstrip('.')} = {value}"
    parts = value.items() if isinstance(value, dict) else ()
    parts = enumerate(value) if isinstance(value, list) else parts
    return next(filter(None, (_first_not_finite(v, f"{where}.{k}") for k, v in parts)), None)


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
        value = item[()]
        if dtype and value.dtype.kind == "f":
            if np.abs(value).max(initial=0) > np.finfo(dtype).max:
                raise ValueError(
                    f"`weights_dtype` must represent every weight. Received: {dtype} for "
                    f"{item.name} with values up to {np.abs(value).max()}"
                )
            value = value.astype(dtype)
        new.create_dataset(name, data=value).attrs.update(item.attrs)


def _check_replaceable(folder):
    """Check that a folder holds only files of a preset, which may be removed."""
    folder = Path(folder)
    if folder.exists() and not folder.is_dir():
        raise NotADirectoryError(f"{folder} is a file")
    known = set(PRESET_FILES)
    with contextlib.suppress(OSError, ValueError):  # no preset, or a damaged one
        known |= set(open_preset(folder).names)
    folders = {str(parent) for name in known for parent in PurePosixPath(name).parents}
    foreign = []
    for path in folder.rglob("*"):
        name = path.relative_to(folder).as_posix()
        if name not in (folders if path.is_dir() else known) and not LEFTOVER.fullmatch(name):
            foreign.append(name)
    if foreign:
        raise ValueError(
            "`folder` must be new, empty, or a preset, which is replaced. "
            f"Received: {folder} with {sorted(foreign)[:8]}"
        )


@contextlib.contextmanager
def _explained(folder):
    try:
        yield
    except OSError as error:
        raise OSError(
            "`folder` must be a writable folder. Choose another folder, or free disk space. "
            f"Received: {folder} ({error.__cause__ or error})"
        ) from error
