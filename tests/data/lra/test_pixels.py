"""Test CIFAR-10 in grayscale: levels and parts."""

import numpy as np
import pytest

from keras_permix.data import load_pixels
from keras_permix.data.lra import pixels
from tests.data.images.miniature import trust
from tests.data.images.miniature_cifar import write_archive


@pytest.mark.parametrize(
    ("color", "level"),
    [
        ((0, 0, 0), 0),
        ((255, 255, 255), 255),
        ((255, 0, 0), 76),  # 0.2989 * 255.5 = 76.37
        ((0, 255, 0), 149),  # 149.98
        ((0, 0, 255), 29),  # 29.13
        ((10, 200, 30), 124),  # (2.989 + 117.4 + 3.42) * 255.5 / 255 = 124.05
    ],
)
def test_gray_levels(color, level):
    assert pixels.gray(np.array([[color]], "uint8")).tolist() == [[[level]]]


def test_parts(tmp_path, monkeypatch):
    (images, labels), (tests, test_labels) = write_archive(tmp_path, "cifar-10-binary.tar.gz")
    trust(monkeypatch, tmp_path)
    data = load_pixels(tmp_path, validation=4)
    weights = [0.2989, 0.587, 0.114]
    for part, colors, classes in (
        (data.train, images[:11], labels[:11]),
        (data.validation, images[11:], labels[11:]),
        (data.test, tests, test_labels),
    ):
        levels = np.floor((colors.astype("float64") @ weights) * 255.5 / 255)
        assert part[0].shape == (len(classes), 32, 32, 1) and part[0].dtype == "uint8"
        assert np.abs(part[0][..., 0] - levels).max() <= 1
        assert (part[0][..., 0] == levels).mean() > 0.999
        np.testing.assert_array_equal(part[1], classes)
    assert data.name == "cifar10_gray" and len(data.labels) == 10
    with pytest.raises(ValueError, match="`validation` must leave .* 15 images, validation=15"):
        load_pixels(tmp_path, validation=15)
