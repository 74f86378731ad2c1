"""Score a trained model, and write its preset and card."""

import contextlib
from pathlib import Path
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_permix._typing import Model, StrPath
from keras_permix.data import Dataset
from keras_permix.data.dataset import fingerprint
from keras_permix.tasks import task_of
from keras_permix.training.card import write_card
from keras_permix.training.data import load_data
from keras_permix.training.run import Run
from keras_permix.training.run_folder import PATH_KEYS, RunFolder
from keras_permix.utils.files import release_folder, write_text
from keras_permix.zoo.presets.load import load_preset
from keras_permix.zoo.presets.names import preset_info


def write_preset(
    model: Model,
    run: Run,
    dataset: Dataset,
    rows: list[dict[str, Any]],
    out: StrPath,
    record: dict[str, Any],
) -> dict[str, float]:
    """Score a trained model with its stored weights, and write its preset and card.

    Weights are stored in the dtype of the recipe's `store`, or as float32 if one exceeds the range
    of float16. Scores are computed in float32 from the stored weights. A smoke run gets no card.

    Args:
        model: The trained model.
        run: The `Run`.
        dataset: The `Dataset` with the test set.
        rows: Rows of the log.
        out: Folder of the run, which receives `preset/` and `README.md`.
        record: `record` of a `Recorder`.

    Returns:
        A dict from names such as "cifar10/test/top1" to scores.

    Example:
        >>> from keras_permix.tasks import task_of
        >>> from keras_permix.training import make_model, plan_run, write_preset
        >>> run = plan_run("cspvit/mnist", smoke=True, model={"num_layers": 1})
        >>> model = make_model(run.recipe)
        >>> sorted(write_preset(model, run, task_of(model).generate(8), [], "run", {"commits": []}))
        ['generated/test/top1', 'generated/test/top5']
    """
    name = run.name.split("/")[-1]
    config = {**model.get_config(), "name": name, "trainable": True, "dtype": "float32"}
    stored = type(model).from_config(config)
    values = (ops.convert_to_numpy(weight.value) for weight in model.weights)
    weights = [
        value.astype("float32" if keras.backend.is_float_dtype(value.dtype.name) else value.dtype)
        for value in values
    ]
    fits = run.recipe.store == "float16" and all(map(_fits_float16, weights))
    dtype = "float16" if fits else "float32"
    if fits:  # The stored weights are scored.
        weights = [
            w.astype("float16").astype("float32") if w.dtype.kind == "f" else w for w in weights
        ]
    stored.set_weights(weights)
    task = task_of(stored)
    measured = task.evaluate(dataset.test, run.recipe.batch_size) | task.baseline(dataset)
    scores = {f"{dataset.name}/test/{key}": float(f"{v:.4g}") for key, v in measured.items()}
    options = {key: value for key, value in run.recipe.data.items() if key != "name"}
    stored.save_to_preset(
        Path(out) / "preset",
        labels=list(dataset.labels),
        data=dataset.name,
        data_options=None if run.smoke else options or None,
        recipe=run.source,
        command=run.command,
        commit=", ".join(record["commits"]) or None,
        license="Apache-2.0" if run.is_known else None,
        scores=scores,
        epochs=len(rows),
        weights_dtype=dtype,
    )
    if not run.smoke:
        card = write_card(stored, run, dataset, scores, rows, record, dtype)
        write_text(Path(out) / "README.md", card)
    return scores


def _fits_float16(weight):
    return weight.dtype.kind != "f" or np.abs(weight).max(initial=0) <= np.finfo("float16").max


def finished_scores(
    run: Run, folder: StrPath, data_dir: StrPath | None = None
) -> dict[str, float] | None:
    """Return the scores of a finished run, or `None`.

    Your files are compared with those of the run if they still exist; named data sets are not.

    Raises:
        ValueError: if the folder holds a run of another recipe or other data, or only damaged
            checkpoints.
        OSError: if another process trains in the folder.
    """
    if not (Path(folder) / "checkpoints").is_dir():
        return None
    try:
        kept = RunFolder(folder, run.recipe)
    finally:
        release_folder(folder)
    written = ["preset/metadata.json"] + ["README.md"] * (not run.smoke)
    whole = all((kept.path / name).is_file() for name in written)
    if not whole or kept.epoch < run.recipe.epochs and not kept.is_stopped():
        return None
    preset = preset_info(kept.path / "preset")
    if preset.metadata.get("epochs") != kept.epoch:  # The preset is that of a shorter run.
        return None
    if kept.data and any(isinstance(run.recipe.data.get(key), str) for key in PATH_KEYS):
        task = task_of(load_preset(None, preset, load_weights=False))
        data = None  # Missing files are not compared.
        with contextlib.suppress(OSError, ImportError, ValueError):
            data = fingerprint(load_data(task, run.recipe, data_dir, run.smoke))
        kept.check_data(data)
    return preset.metadata["scores"]
