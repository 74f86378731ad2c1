"""Write a model as a preset folder."""

import contextlib
import datetime
import json
import os
import shutil
from pathlib import Path

import h5py
import keras
import numpy as np

from keras_permix.zoo.presets.config import is_quantized, model_class, serialize_model
from keras_permix.zoo.presets.folder import (
    CONFIG_FILE,
    METADATA_FILE,
    PREPROCESSOR_FILE,
    PRESET_FILES,
    TASK_FILE,
    WEIGHTS_FILE,
    checksum,
    read_json,
)
from keras_permix.zoo.presets.probe import ATOL, QUANTIZED_ATOL, make_probe

METADATA_KEYS = (
    "labels", "data", "data_options", "recipe", "command", "commit", "license", "scores"
)  # fmt: skip
WEIGHTS_DTYPES = (None, "float16", "float32")


def save_preset(model, folder, *, weights_dtype=None, urls=None, **metadata):
    """Write `model` as a preset; see `ZooModel.save_to_preset`."""
    spec = serialize_model(model)
    if weights_dtype not in WEIGHTS_DTYPES:
        raise ValueError(
            f"`weights_dtype` must be one of {list(WEIGHTS_DTYPES)}. Received: {weights_dtype!r}"
        )
    _check_known("metadata", metadata, METADATA_KEYS)
    _check_known("urls", urls or {}, PRESET_FILES)
    labels = metadata.get("labels")
    if labels is not None and len(labels) != model.output_shape[-1]:
        raise ValueError(
            "`labels` must hold one name per class or output. "
            f"Received: {len(labels)} labels for {model.output_shape[-1]} outputs"
        )
    with _writing(folder) as partial:
        write_json(partial / CONFIG_FILE, spec)
        for layer in model.layers:
            if layer.name == "preprocessor":
                write_json(partial / PREPROCESSOR_FILE, _serialize_layer(layer))
        task = {"task": model.task, **model.describe_output(), "labels": labels}
        write_json(partial / TASK_FILE, task)
        model.save_weights(partial / f"full.{WEIGHTS_FILE}")
        pack_weights(partial / f"full.{WEIGHTS_FILE}", partial / WEIGHTS_FILE, weights_dtype)
        (partial / f"full.{WEIGHTS_FILE}").unlink()
        files = {path.name: checksum(path) for path in sorted(partial.iterdir())}
        for name, url in (urls or {}).items():
            files[name]["url"] = url
        write_json(
            partial / METADATA_FILE,
            {
                "keras_version": keras.__version__,
                "parameter_count": model.count_params(),
                "date_saved": datetime.datetime.now().strftime("%Y-%m-%d@%H:%M:%S"),
                "files": files,
                "input": model.describe_input(),
                **{key: metadata.get(key) for key in METADATA_KEYS},
                "probe": _probe(partial),
            },
        )


def update_metadata(folder, **changes):
    """Change what a preset's `metadata.json` says, for example its `scores` once measured.

    Args:
        folder: Folder of the preset.
        **changes: Some of `METADATA_KEYS`, such as `scores`.
    """
    _check_known("changes", changes, METADATA_KEYS)
    path = Path(folder) / METADATA_FILE
    changed = path.with_name(f".{path.name}.{os.getpid()}")
    write_json(changed, {**read_json(path), **changes})
    os.replace(changed, path)


def pack_weights(source, target, dtype=None):
    """Copy an HDF5 weights file compactly, without optimizer, floating arrays cast to `dtype`.

    Raises:
        ValueError: if a weight is too large for `dtype`.
    """
    # Groups in the format of HDF5 1.8 take a third of the space, which counts in small models.
    with h5py.File(source) as old, h5py.File(target, "w", libver=("v108", "latest")) as new:
        _copy_group(old, new, dtype)


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
            if np.isfinite(value).all() and np.abs(value).max(initial=0) > np.finfo(dtype).max:
                raise ValueError(
                    f"`weights_dtype` must hold every weight. Received: {dtype} for {item.name} "
                    f"with values up to {np.abs(value).max()}"
                )
            value = value.astype(dtype)
        new.create_dataset(name, data=value).attrs.update(item.attrs)


def write_json(path, value):
    """Write an object as a JSON file that people can read."""
    text = json.dumps(value, indent=2, ensure_ascii=False, default=lambda array: array.tolist())
    path.write_text(text + "\n", encoding="utf-8")


@contextlib.contextmanager
def _writing(folder):
    """Give a folder to write in, which takes the place of `folder` when all is written."""
    folder = Path(os.path.abspath(folder))
    partial, old = (folder.with_name(f".{folder.name}.{n}.{os.getpid()}") for n in ("new", "old"))
    try:
        foreign = set(os.listdir(folder)) - set(PRESET_FILES) if folder.exists() else None
        if foreign:
            raise ValueError(
                "`folder` must be new, empty, or hold a preset, which is replaced. "
                f"Received: {folder} with {sorted(foreign)[:8]}"
            )
        partial.mkdir(parents=True)
        yield partial
        if folder.exists():
            os.rename(folder, old)
        os.rename(partial, folder)
    except OSError as error:
        raise OSError(
            "`folder` must be a folder that can be written. Choose another, or make room. "
            f"Received: {folder} ({error})"
        ) from error
    finally:
        shutil.rmtree(partial, ignore_errors=True)
        if old.exists() and not folder.exists():
            os.rename(old, folder)
        shutil.rmtree(old, ignore_errors=True)


def _check_known(argument, given, known):
    unknown = sorted(set(given) - set(known))
    if unknown:
        raise ValueError(f"`{argument}` may hold {', '.join(known)}. Received: {unknown}")


def _serialize_layer(layer):
    spec = keras.layers.serialize(layer)
    return {key: spec[key] for key in ("module", "class_name", "config", "registered_name")}


def _probe(folder):
    """The probe of the preset in `folder`, in float32 where its weights are not quantised."""
    spec = read_json(folder / CONFIG_FILE)
    quantized = is_quantized(spec["config"])
    config = spec["config"] if quantized else {**spec["config"], "dtype": "float32"}
    stored = model_class(spec, folder / CONFIG_FILE).from_config(config)
    stored.load_weights(folder / WEIGHTS_FILE)
    return make_probe(stored, atol=QUANTIZED_ATOL if quantized else ATOL)
