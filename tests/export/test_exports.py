"""Test that exported models match the Keras model for any batch size.

By default, a few cases run. `make test-exports` runs all cases, and times presets with their
weights. It writes the results to the file in `KERAS_PERMIX_EXPORTS`, from which `tools/tables.py`
generates the tables of `docs/guides/export.md`.
"""

import csv
import datetime
import importlib
import json
import os
from pathlib import Path

import keras
import pytest

from keras_permix.bench.timing import medians
from keras_permix.zoo import ZooModel
from tests.export.ways import WAYS, lacking, skip_if_tensorflow_cannot_read_jax
from tests.harness import ROOT, assert_close, to_numpy
from tests.zoo.models import TINY, tiny

BACKEND = keras.config.backend()
FOUND = os.environ.get("KERAS_PERMIX_EXPORTS")
TABLE = ROOT / "benchmarks/epyc/exports.csv"
USUAL = {
    ("jax", "SavedModel", "CSPViT"),
    ("tensorflow", "ONNX, Keras", "CSPMEGA"),
    ("tensorflow", "ONNX, Keras", "CSPViT"),
    ("tensorflow", "SavedModel", "CSPViT"),
    ("torch", "ONNX, TorchScript", "ButterflyMixer"),
    ("torch", "ONNX, TorchScript", "CSPViT"),
    ("torch", "ONNX, TorchScript", "SimpleTRON"),
    ("torch", "ONNX, TorchScript", "SliceViT"),
    ("torch", "ONNX, dynamo", "ButterflyMixer"),
    ("torch", "ONNX, dynamo", "CSPViT"),
    ("torch", "ONNX, dynamo", "SimpleTRON"),
    ("torch", "ONNX, dynamo", "SliceViT"),
    ("torch", "torch.export", "MEGA"),
}
MODELS = [name for name in TINY if name != "ViT"]
PRESETS = [
    "butterflymixer/cifar10",
    "butterflyvit/cifar10_small",
    "cspmega/listops_small",
    "cspvit/cifar10_small",
    "lratransformer/imdb",
    "patchonlymlpmixer/cifar10",
    "simpletron/sst2",
    "slicegraphormer/qm9_gap",
]
CASES = [
    pytest.param(way, name, id=f"{way}-{name}")
    for way in WAYS[BACKEND]
    for name in (*MODELS, *PRESETS)
    if FOUND or (BACKEND, way, name) in USUAL
]
COLUMNS = ("backend", "way", "model", "found", "own_ms", "exported_ms", "date", "versions")
pytestmark = pytest.mark.filterwarnings("ignore")  # exporters warn about their own code


@pytest.mark.parametrize(("way", "name"), CASES)
def test_exported_model_matches_keras_model(way, name, tmp_path):
    export, packages = WAYS[BACKEND][way]
    if missing := lacking(packages):
        pytest.skip(f"not installed: {', '.join(missing)}")
    if way == "SavedModel":
        skip_if_tensorflow_cannot_read_jax()
    is_preset = name in PRESETS
    model = ZooModel.from_preset(name) if is_preset else tiny(name, num_layers=1)
    found, known = {"found": "fails"}, KNOWN.get((BACKEND, way, name))
    try:
        # Time the model before a second engine starts its threads in this process.
        times = {"own_ms": milliseconds(model.predict_on_batch, model)} if is_preset else {}
        run = export(model, tmp_path)
        for batch in (3, 1):
            inputs = model._example(batch, seed=7)
            expected = to_numpy(model(inputs, training=False))
            assert_close(run(inputs), expected, kind="export")
        if is_preset:
            times["exported_ms"] = milliseconds(run, model)
        found = {"found": "works", **times}
    except Exception as error:
        found = {"found": f"fails: {type(error).__name__}"}
        if found["found"] == known:
            pytest.xfail(f"known failure: {found['found']}")
        raise
    finally:
        # Do not write regressions and new errors to the table; they fail this run.
        if FOUND and (found["found"] == "works" or known in (None, found["found"])):
            write(found | {"backend": BACKEND, "way": way, "model": name}, packages)


def milliseconds(function, model):
    """Return the milliseconds that a function takes for 16 samples."""
    inputs = model._example(16, seed=7)
    (time,) = medians([lambda: function(inputs)], repeats=10)
    return f"{time:.1f}"


def write(row, packages):
    """Write a row to the file, replacing an older row of the same case."""
    path = Path(FOUND)
    rows = read(path) if path.is_file() else []
    modules = [importlib.import_module(name) for name in ("keras", BACKEND, *packages)]
    versions = [f"{m.__name__} {getattr(m, '__version__', '')}".strip() for m in modules]
    row |= {"date": datetime.date.today().isoformat(), "versions": ", ".join(versions)}
    rows = [other for other in rows if key(other) != key(row)]
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(sorted([*rows, row], key=key))


def read(path):
    """Read the rows of a results file."""
    with open(path, newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def key(row):
    """Return backend, way and model of a row."""
    return row["backend"], row["way"], row["model"]


# The results before this run. Cases that worked must still work.
KNOWN = {key(row): row["found"] for row in read(TABLE)}


@pytest.mark.parametrize("way", [way for way in WAYS[BACKEND] if way.startswith("ONNX")])
def test_onnx_files_name_inputs_outputs_and_labels(way, tmp_path):
    export, packages = WAYS[BACKEND][way]
    if missing := lacking(packages):
        pytest.skip(f"not installed: {', '.join(missing)}")
    import onnx

    labels = [f"kløver {number}" for number in range(10)]
    export(tiny("CSPViT", num_layers=1, num_classes=10, labels=labels), tmp_path)
    file = onnx.load(tmp_path / "model.onnx")
    onnx.checker.check_model(file)
    assert [value.name for value in file.graph.input] == ["images"]
    assert [value.name for value in file.graph.output] == ["logits"]
    for value in (*file.graph.input, *file.graph.output):
        assert value.type.tensor_type.shape.dim[0].dim_param == "batch"
    assert {entry.key: json.loads(entry.value) for entry in file.metadata_props} == {
        "labels": labels
    }


@pytest.mark.once
def test_table_lists_all_cases():
    names = (*MODELS, *PRESETS)
    cases = {(b, way, name) for b, ways in WAYS.items() for way in ways for name in names}
    assert {key(row) for row in read(TABLE)} == cases


@pytest.mark.once
def test_usual_cases_exist():
    assert all(way in WAYS[backend] and name in MODELS for backend, way, name in USUAL)
