"""Test TFDS data sets as sources, read without TensorFlow."""

import json
import subprocess
import sys
from pathlib import Path

import keras
import pytest

from keras_permix.data import tfds_images

pytest.importorskip("tensorflow_datasets", reason="tensorflow-datasets is not installed")
ROOT = Path(__file__).parents[3]


def run(step, folder):
    command = [sys.executable, "-m", "tests.data.images.tiny_tfds", step, str(folder)]
    return subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tfds")
    run("prepare", folder)
    return folder


@pytest.mark.skipif(
    keras.backend.backend() == "tensorflow", reason="TensorFlow is the backend and cannot be hidden"
)
def test_read_without_tensorflow(folder):
    about = json.loads(run("read", folder))
    assert about["tensorflow"] is False
    assert about["labels"] == ["even", "odd"]
    assert about["shape"] == [6, 16, 16, 3] and about["test"] == 3
    assert sorted(about["levels"]) == [0, 10, 20, 30, 40, 50] != about["levels"]
    assert about["targets"] == [level / 10 % 2 for level in about["levels"]]


@pytest.mark.parametrize(
    ("name", "split", "rule"),
    [
        ("tiny", "validation", "validation.*train"),
        ("tiniest", "train", "`name` must be a set of TFDS. Received: name='tiniest'"),
    ],
)
def test_unknown_name_or_split_raises(name, split, rule, folder):
    with pytest.raises(ValueError, match=rule):
        tfds_images(name, 16, folder, splits=(split, "train"))


def test_missing_tfds_raises(monkeypatch):
    monkeypatch.setitem(sys.modules, "tensorflow_datasets", None)
    with pytest.raises(ImportError, match=r'pip install "keras_permix\[train\]"'):
        tfds_images("tiny", 16)
