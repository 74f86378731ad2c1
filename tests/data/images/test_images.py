"""Test CIFAR and MNIST, loaded from files and from Keras."""

import subprocess
import sys

import keras
import numpy as np
import pytest

from keras_permix.data import load_images
from keras_permix.data.files import DATA_VARIABLE
from tests.data.images.miniature import trust, write_cifar10, write_mnist

WRITERS = {"cifar10": write_cifar10, "mnist": write_mnist}


@pytest.fixture
def no_folder(monkeypatch):
    monkeypatch.delenv(DATA_VARIABLE, raising=False)


@pytest.mark.parametrize("name", WRITERS)
@pytest.mark.parametrize("by", ["argument", "environment"])
def test_load_images_from_files(name, by, tmp_path, monkeypatch, no_folder):
    written = WRITERS[name](tmp_path)
    trust(monkeypatch, tmp_path)
    if by == "environment":
        monkeypatch.setenv(DATA_VARIABLE, str(tmp_path))
    data = load_images(name, tmp_path if by == "argument" else None)
    for (x, y), (made_x, made_y) in ((data.train, written["train"]), (data.test, written["test"])):
        assert (x.dtype, y.dtype) == ("uint8", "int32")
        assert x.ndim == 4
        np.testing.assert_array_equal(x.reshape(made_x.shape), made_x)
        np.testing.assert_array_equal(y, made_y)
    assert (data.name, len(data.labels)) == (name, 10)


@pytest.mark.parametrize("name", WRITERS)
def test_corrupt_file_raises(name, tmp_path):
    WRITERS[name](tmp_path)
    with pytest.raises(ValueError, match=rf"{name}.* must have the SHA-256.*Received: "):
        load_images(name, tmp_path)


def test_missing_file_raises(tmp_path):
    rule = "`data_dir`.* that contains cifar10.zip, or cifar-10-python.*Received: "
    with pytest.raises(FileNotFoundError, match=rule):
        load_images("cifar10", tmp_path)


def test_unknown_name_raises():
    with pytest.raises(ValueError, match="'cifar10', 'cifar100', 'mnist'.*name='cifar'"):
        load_images("cifar")


def test_one_missing_file_of_several_raises(tmp_path):
    write_mnist(tmp_path)
    (tmp_path / "mnist-t10k-labels-idx1-ubyte.gz").unlink()
    with pytest.raises(
        FileNotFoundError, match="that contains .* and t10k-labels-idx1-ubyte. Received: "
    ):
        load_images("mnist", tmp_path)


def test_failed_download_raises(monkeypatch, no_folder):
    def fail():
        raise Exception("URL fetch failure on https://example.org: None -- no route")

    monkeypatch.setattr(keras.datasets.mnist, "load_data", fail)
    with pytest.raises(ConnectionError, match=rf"{DATA_VARIABLE}.*Received: URL fetch failure"):
        load_images("mnist")


def test_download_locks_out_other_processes(monkeypatch, no_folder, tmp_path):
    monkeypatch.setenv("KERAS_HOME", str(tmp_path))
    images = np.zeros((2, 28, 28), "uint8"), np.zeros(2, "uint8")

    def load_data():
        (lock,) = tmp_path.rglob(".mnist.lock")
        code = f"import filelock; filelock.FileLock({str(lock)!r}).acquire(blocking=False)"
        other = subprocess.run([sys.executable, "-c", code], capture_output=True)
        assert b"could not be acquired" in other.stderr
        return images, images

    monkeypatch.setattr(keras.datasets.mnist, "load_data", load_data)
    assert load_images("mnist").train[0].shape == (2, 28, 28, 1)


@pytest.mark.parametrize("data_format", ["channels_last", "channels_first"])
def test_downloaded_arrays_are_channels_last(data_format, monkeypatch, no_folder):
    x = np.random.default_rng(0).integers(0, 256, (4, 32, 32, 3), dtype="uint8")
    y = np.array([[3], [99], [0], [7]])
    came = np.moveaxis(x, -1, 1) if data_format == "channels_first" else x
    monkeypatch.setattr(keras.config, "image_data_format", lambda: data_format)
    monkeypatch.setattr(keras.datasets.cifar100, "load_data", lambda: ((came, y), (came, y)))
    data = load_images("cifar100")
    np.testing.assert_array_equal(data.train[0], x)
    np.testing.assert_array_equal(data.test[1], [3, 99, 0, 7])
    assert (data.labels[0], data.labels[99], len(set(data.labels))) == ("apple", "worm", 100)
