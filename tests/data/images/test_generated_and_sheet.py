"""Test generated images and contact sheets."""

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from keras_permix.data import generated_images, load_sheet

SHEET = Path(__file__).parents[3] / "examples/images/cifar10_test.png"


def test_generated_images_have_requested_shape():
    data = generated_images((20, 30, 1), num_classes=6, count=40)
    assert data.train[0].shape == (40, 20, 30, 1) and data.test[0].shape == (10, 20, 30, 1)
    assert (data.train[0].dtype, data.train[1].dtype) == ("uint8", "int32")
    assert set(data.train[1]) == set(range(6)) and len(data.labels) == 6


def test_generated_images_depend_on_the_seed():
    first, second, other = (generated_images((8, 8, 3), 3, 8, seed).train[0] for seed in (0, 0, 1))
    np.testing.assert_array_equal(first, second)
    assert not np.array_equal(first, other)


def test_generated_classes_can_be_learned():
    data = generated_images((16, 16, 3), num_classes=10, count=100)
    (x, y), (test_x, test_y) = data.train, data.test
    means = np.stack([x[y == label].mean(0) for label in range(10)])
    distances = ((test_x[:, None].astype(float) - means) ** 2).sum((2, 3, 4))
    assert np.mean(distances.argmin(1) == test_y) == 1
    assert not np.array_equal(x[0], x[10])


def test_example_sheet():
    x, y, labels = load_sheet(SHEET)
    assert x.shape == (400, 32, 32, 3) and x.dtype == "uint8" and y.dtype == "int32"
    assert [labels[label] for label in y[:4]] == ["cat", "ship", "ship", "airplane"]
    assert SHEET.stat().st_size < 1e6


def write_sheet(folder, size=(8, 12), targets=(0, 1, 1, 0, 1)):
    pixels = np.random.default_rng(0).integers(0, 256, (*size, 3), dtype="uint8")
    Image.fromarray(pixels).save(folder / "some.png")
    about = {"tile": 4, "targets": targets, "labels": ["no", "yes"]}
    (folder / "some.json").write_text(json.dumps(about))
    return pixels


def test_tiles_are_read_row_by_row(tmp_path):
    pixels = write_sheet(tmp_path)
    x, y, labels = load_sheet(tmp_path / "some.png")
    assert (len(x), list(y), labels) == (5, [0, 1, 1, 0, 1], ("no", "yes"))
    np.testing.assert_array_equal(x[2], pixels[:4, 8:])
    np.testing.assert_array_equal(x[3], pixels[4:, :4])


@pytest.mark.parametrize("name", ["some.png", "some.json"])
def test_incomplete_sheet_raises(name, tmp_path):
    write_sheet(tmp_path)
    (tmp_path / name).unlink()
    with pytest.raises(FileNotFoundError, match=name):
        load_sheet(tmp_path / "some.png")
