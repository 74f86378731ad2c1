"""Test the official files of CIFAR and MNIST, damaged files and malicious pickles."""

import gzip
import os
import pickle
import tarfile

import numpy as np
import pytest

from keras_permix.data import load_images
from tests.data.images.miniature import trust, write_mnist
from tests.data.images.miniature_cifar import ARCHIVES, pickled, write_archive


@pytest.mark.parametrize("unpacked", [False, True], ids=["archive", "folder"])
@pytest.mark.parametrize("name", ARCHIVES)
def test_cifar_in_the_format_of_the_authors(name, unpacked, tmp_path, monkeypatch):
    written = write_archive(tmp_path, name)
    if unpacked:
        with tarfile.open(tmp_path / name) as archive:
            archive.extractall(tmp_path, filter="data")
        (tmp_path / name).unlink()
    else:
        trust(monkeypatch, tmp_path)
    data = load_images("cifar100" if "100" in name else "cifar10", tmp_path)
    for (x, y), (images, labels) in zip((data.train, data.test), written, strict=True):
        assert (x.dtype, y.dtype) == ("uint8", "int32")
        np.testing.assert_array_equal(x, images)
        np.testing.assert_array_equal(y, labels)
    assert len(data.labels) == ARCHIVES[name][2]


@pytest.mark.parametrize("packed", [True, False], ids=["gz", "unpacked"])
def test_mnist_with_original_file_names(packed, tmp_path, monkeypatch):
    written = write_mnist(tmp_path)
    for path in list(tmp_path.iterdir()):
        original = path.with_name(path.name.removeprefix("mnist-"))
        path.rename(original)
        if not packed:
            original.with_suffix("").write_bytes(gzip.decompress(original.read_bytes()))
            original.unlink()
    if packed:
        trust(monkeypatch, tmp_path)
    data = load_images("mnist", tmp_path)
    for (x, y), made in ((data.train, written["train"]), (data.test, written["test"])):
        np.testing.assert_array_equal(x[..., 0], made[0])
        np.testing.assert_array_equal(y, made[1])


def test_wrong_checksum_raises(tmp_path):
    write_archive(tmp_path, "cifar-10-python.tar.gz")
    with pytest.raises(ValueError, match="cifar-10-python.tar.gz.*SHA-256"):
        load_images("cifar10", tmp_path)


def unpacked_cifar(folder, name="cifar-10-python.tar.gz"):
    write_archive(folder, name)
    with tarfile.open(folder / name) as archive:
        archive.extractall(folder, filter="data")
    (folder / name).unlink()
    return folder / ARCHIVES[name][0]


def test_missing_cifar_file_raises(tmp_path):
    (unpacked_cifar(tmp_path) / "data_batch_4").unlink()
    with pytest.raises(FileNotFoundError, match="data_batch_4"):
        load_images("cifar10", tmp_path)


class Malicious:
    """Object that creates a folder when `pickle` loads it."""

    def __init__(self, path):
        self.path = str(path)

    def __reduce__(self):
        return os.mkdir, (self.path,)


def test_malicious_pickle_raises_and_is_not_executed(tmp_path):
    folder = unpacked_cifar(tmp_path)
    blob = pickled({b"data": np.zeros(3), b"labels": Malicious(tmp_path / "made")})
    (folder / "test_batch").write_bytes(blob)
    with pytest.raises(ValueError, match="must be undamaged.*asks for .*mkdir"):
        load_images("cifar10", tmp_path)
    assert not (tmp_path / "made").exists()
    pickle.loads(blob)
    assert (tmp_path / "made").exists(), "`pickle` itself must execute it"


@pytest.mark.parametrize("damage", [lambda b: b[:-1], lambda b: b""])
def test_damaged_mnist_file_raises(damage, tmp_path):
    write_mnist(tmp_path)
    for path in list(tmp_path.iterdir()):  # Unpacked files have no known checksum.
        name = path.stem.removeprefix("mnist-")
        content = gzip.decompress(path.read_bytes())
        is_damaged = name == "train-labels-idx1-ubyte"
        (tmp_path / name).write_bytes(damage(content) if is_damaged else content)
        path.unlink()
    with pytest.raises(ValueError, match="train-labels.* must be undamaged"):
        load_images("mnist", tmp_path)
