"""Write a model as a preset folder."""

import contextlib
import datetime
import json
import math
import os
from pathlib import Path, PurePosixPath
from typing import Any

import keras

from keras_permix._typing import Model, StrPath
from keras_permix.utils.checks import check_choice, check_labels
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
from keras_permix.zoo.presets.load import is_quantized
from keras_permix.zoo.presets.names import check_plain, model_class
from keras_permix.zoo.presets.probe import ATOL, QUANTIZED_ATOL, make_probe
from keras_permix.zoo.presets.weights import (
    check_finite_weights,
    load_weights_content,
    pack_weights,
    weights_content,
)
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
    _check_known("metadata", metadata, METADATA_KEYS)
    if metadata.get("labels") is None:
        metadata["labels"] = model.labels
    metadata["labels"] = check_labels(metadata["labels"], model.output_shape[-1])
    with _explained(folder):
        _check_replaceable(folder)
    check_finite_weights(model)
    task = {"task": model.task, **model.describe_output(), "labels": metadata["labels"]}
    contents = {
        CONFIG_FILE: json_content(spec, CONFIG_FILE),
        **_preprocessor(model),
        TASK_FILE: json_content(task, TASK_FILE),
        WEIGHTS_FILE: pack_weights(weights_content(model), weights_dtype),
        **_assets(model),
    }
    check_file_names(contents, "`model.assets()`")
    files = {name: entry_of(content) for name, content in sorted(contents.items())}
    _check_known("urls", urls or {}, files)
    for name, url in (urls or {}).items():
        files[name]["url"] = url
    stored = _stored_model(spec, contents[WEIGHTS_FILE])
    atol = QUANTIZED_ATOL if is_quantized(spec["config"]) else ATOL
    contents[METADATA_FILE] = json_content(
        {
            "keras_version": keras.__version__,
            "parameter_count": stored.count_params(),
            "date_saved": datetime.datetime.now().strftime("%Y-%m-%d@%H:%M:%S"),
            "files": files,
            "input": model.describe_input(),
            **{key: metadata.get(key) for key in METADATA_KEYS},
            "probe": make_probe(stored, atol),
        },
        METADATA_FILE,
    )
    with _explained(folder):
        _write_folder(folder, contents)


def _serialize_model(model: Model) -> dict[str, Any]:
    """Return the object for `config.json`, without compile state and the content of other files.

    Raises:
        ValueError: if the class of the model is not in the zoo, or its `mixer` is a custom layer.
    """
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
    """Return an object as the bytes of an indented JSON file.

    Raises:
        ValueError: for NaN and infinity, which JSON does not have.
    """
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


def _write_folder(folder, contents):
    with replacing_folder(folder) as partial:
        for name, content in contents.items():
            (partial / name).parent.mkdir(parents=True, exist_ok=True)
            write_bytes(partial / name, content)
        _check_replaceable(folder)


def _check_replaceable(folder):
    """Check that a folder holds only files of a preset, which may be removed."""
    folder = Path(folder)
    if folder.exists() and not folder.is_dir():
        raise NotADirectoryError(f"{folder} is a file")
    known = {*PRESET_FILES, *_listed(folder)}
    folders = {str(parent) for name in known for parent in PurePosixPath(name).parents}
    foreign = []
    for path, inner, files in os.walk(folder):
        relative = Path(path).relative_to(folder)
        foreign += {(relative / name).as_posix() for name in inner} - folders
        foreign += {(relative / name).as_posix() for name in files} - known
    foreign = sorted(name for name in foreign if not LEFTOVER.fullmatch(name))
    if foreign:
        raise ValueError(
            "`folder` must be new, empty, or a preset, which is replaced. "
            f"Received: {folder} with {foreign[:8]}"
        )


def _listed(folder):
    """Return the names of the files of the preset in a folder, if any."""
    try:
        return open_preset(folder).names
    except (OSError, ValueError):
        return []


@contextlib.contextmanager
def _explained(folder):
    try:
        yield
    except OSError as error:
        raise OSError(
            "`folder` must be a writable folder. Choose another folder, or free disk space. "
            f"Received: {folder} ({error.__cause__ or error})"
        ) from error


def _assets(model):
    """Return other files of a model, such as a vocabulary, by their relative paths."""
    assets = model.assets()
    if wrong := sorted(set(assets) & set(PRESET_FILES)):
        raise ValueError(f"`model.assets()` may not replace {wrong[0]}. Received: {wrong}")
    return assets


def _check_known(argument, given, known):
    unknown = sorted(set(given) - set(known))
    if unknown:
        raise ValueError(f"`{argument}` may contain {', '.join(known)}. Received: {unknown}")


def _preprocessor(model):
    """Return the content of `preprocessor.json` for a model with such a layer."""
    if model.preprocessor is None:
        return {}
    spec = keras.layers.serialize(model.preprocessor)
    keys = ("module", "class_name", "config", "registered_name")
    return {PREPROCESSOR_FILE: json_content({key: spec[key] for key in keys}, PREPROCESSOR_FILE)}


def _stored_model(spec, content):
    """Return the model with its stored weights, in float32 unless they are quantized."""
    changes = {} if is_quantized(spec["config"]) else {"dtype": "float32"}
    stored = model_class(spec, CONFIG_FILE).from_config({**spec["config"], **changes})
    load_weights_content(stored, content, WEIGHTS_FILE)
    return stored
