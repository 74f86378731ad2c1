"""Test the real data sets, if `KERAS_PERMIX_DATA` is set."""

import os
from pathlib import Path

import numpy as np
import pytest

from keras_permix.data import load_images, load_sheet
from keras_permix.data.files import DATA_VARIABLE

pytestmark = pytest.mark.skipif(
    DATA_VARIABLE not in os.environ, reason=f"{DATA_VARIABLE} is not set"
)
SHEET = Path(__file__).parents[3] / "examples/images/cifar10_test.png"


@pytest.fixture(scope="module")
def cifar10():
    return load_images("cifar10")


def test_cifar10(cifar10):
    x, y = cifar10.train
    assert x.shape == (50000, 32, 32, 3) and cifar10.test[0].shape == (10000, 32, 32, 3)
    assert [cifar10.labels[label] for label in y[:3]] == ["frog", "truck", "truck"]
    np.testing.assert_allclose(x.mean((0, 1, 2)), [125.307, 122.950, 113.865], atol=1e-3)
    np.testing.assert_array_equal(np.bincount(cifar10.test[1]), [1000] * 10)


def test_mnist():
    data = load_images("mnist")
    assert data.train[0].shape == (60000, 28, 28, 1) and data.test[0].shape == (10000, 28, 28, 1)
    np.testing.assert_array_equal(data.train[1][:10], [5, 0, 4, 1, 9, 2, 1, 3, 1, 4])


def test_example_sheet_is_start_of_test_set(cifar10):
    x, y, labels = load_sheet(SHEET)
    np.testing.assert_array_equal(x, cifar10.test[0][:400])
    np.testing.assert_array_equal(y, cifar10.test[1][:400])
    assert labels == cifar10.labels
