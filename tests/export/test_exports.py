"""What is exported answers as the model does, for any number of samples.

The usual run has a few cases. `make test-exports` runs all of them, presets with their weights
among them, which are timed; it writes what it found into the file that `KERAS_PERMIX_EXPORTS`
names, of which `tools/tables.py` makes the tables of `docs/guides/export.md`.
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
    ("torch", "torch.export", "SimpleTRON"),
    ("torch", "torch.export", "SliceViT"),
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
pytestmark = pytest.mark.filterwarnings("ignore")  # of exporters, about themselves


@pytest.mark.parametrize(("way", "name"), CASES)
def test_exported_model_answers_as_the_model(way, name, tmp_path):
    export, packages = WAYS[BACKEND][way]
    if missing := lacking(packages):
        pytest.skip(f"not installed: {', '.join(missing)}")
    if way == "SavedModel":
        skip_if_tensorflow_cannot_read_jax()
    is_preset = name in PRESETS
    model = ZooModel.from_preset(name) if is_preset else tiny(name, num_layers=1)
    found, known = {"found": "fails"}, KNOWN.get((BACKEND, way, name))
    try:
        # Alone in the process: the threads of two engines get in each other's way.
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
            pytest.xfail(f"as the table says: {found['found']}")
        raise
    finally:
        # What worked before, or failed otherwise, is a failure of this run, and none of the table.
        if FOUND and (found["found"] == "works" or known in (None, found["found"])):
            write(found | {"backend": BACKEND, "way": way, "model": name}, packages)


def milliseconds(function, model):
    """The time that a function takes for 16 samples."""
    inputs = model._example(16, seed=7)
    (time,) = medians([lambda: function(inputs)], repeats=10)
    return f"{time:.1f}"


def write(row, packages):
    """Put one row into the file, in place of an older one."""
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
    """The rows of a file of what was found."""
    with open(path, newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def key(row):
    """What a row is about."""
    return row["backend"], row["way"], row["model"]


# What the table says before the run; what works there must work again.
KNOWN = {key(row): row["found"] for row in read(TABLE)}


@pytest.mark.parametrize("way", [way for way in WAYS[BACKEND] if way.startswith("ONNX")])
def test_onnx_files_name_their_parts(way, tmp_path):
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
def test_the_table_is_of_cases_there_are():
    names = (*MODELS, *PRESETS)
    cases = {(b, way, name) for b, ways in WAYS.items() for way in ways for name in names}
    assert {key(row) for row in read(TABLE)} == cases


@pytest.mark.once
def test_usual_cases_exist():
    assert all(way in WAYS[backend] and name in MODELS for backend, way, name in USUAL)
