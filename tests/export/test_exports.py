"""What is exported answers as the model does, for any number of samples.

The usual run has a few cases. `make test-exports` runs all of them and writes what it found into
the file that `KERAS_PERMIX_EXPORTS` names, of which `tools/tables.py` makes the table of
`docs/export.md`.
"""

import csv
import datetime
import importlib
import os
from pathlib import Path

import keras
import pytest

from tests.export.ways import WAYS, lacking
from tests.harness import ROOT, assert_close, to_numpy
from tests.zoo.models import TINY, tiny

BACKEND = keras.config.backend()
FOUND = os.environ.get("KERAS_PERMIX_EXPORTS")
USUAL = {
    ("torch", "torch.export", "SimpleTRON"),
    ("torch", "torch.export", "SliceViT"),
}
MODELS = [name for name in TINY if name != "ViT"]
CASES = [
    pytest.param(way, name, id=f"{way}-{name}")
    for way in WAYS[BACKEND]
    for name in MODELS
    if FOUND or (BACKEND, way, name) in USUAL
]
COLUMNS = ("backend", "way", "model", "found", "date", "versions")
pytestmark = pytest.mark.filterwarnings("ignore")  # of exporters, about themselves


@pytest.mark.parametrize(("way", "name"), CASES)
def test_exported_model_answers_as_the_model(way, name, tmp_path):
    export, packages = WAYS[BACKEND][way]
    if missing := lacking(packages):
        pytest.skip(f"not installed: {', '.join(missing)}")
    model = tiny(name, depth=1)
    found = "fails"
    try:
        run = export(model, tmp_path)
        for batch in (3, 1):
            inputs = model.make_inputs(7, batch)
            expected = to_numpy(model(inputs, training=False))
            assert_close(run(inputs), expected, kind="model")
        found = "works"
    except Exception as error:
        found = f"fails: {type(error).__name__}"
        raise
    finally:
        if FOUND:
            write(way, name, found, packages)


def write(way, name, found, packages):
    """Put one row into the file, in place of an older one."""
    path = Path(FOUND)
    rows = read(path) if path.is_file() else []
    modules = [importlib.import_module(name) for name in ("keras", BACKEND, *packages)]
    versions = [f"{m.__name__} {getattr(m, '__version__', '')}".strip() for m in modules]
    today = datetime.date.today().isoformat()
    new = dict(zip(COLUMNS, (BACKEND, way, name, found, today, ", ".join(versions)), strict=True))
    rows = [row for row in rows if key(row) != key(new)]
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(sorted([*rows, new], key=key))


def read(path):
    """The rows of a file of what was found."""
    with open(path, newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def key(row):
    """What a row is about."""
    return row["backend"], row["way"], row["model"]


@pytest.mark.once
def test_the_table_is_of_cases_there_are():
    cases = {(b, way, name) for b, ways in WAYS.items() for way in ways for name in MODELS}
    assert {key(row) for row in read(ROOT / "benchmarks/epyc/exports.csv")} <= cases


@pytest.mark.once
def test_usual_cases_exist():
    assert all(way in WAYS[backend] and name in MODELS for backend, way, name in USUAL)
