"""Read CIFAR-10 and CIFAR-100 from their official archives, or from a smaller file."""

import fnmatch
import io
import pickle
import tarfile
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from keras_permix.data.files import read_file

SHAPE = (3, 32, 32)  # of a stored image
BATCHES = tuple(f"data_batch_{number}" for number in range(1, 6))
# The files of both parts, and the labels: an entry of a pickle, or a column of a binary file.
PICKLED_10 = (BATCHES, ("test_batch",), b"labels")
PICKLED_100 = (("train",), ("test",), b"fine_labels")
BINARY_10 = (tuple(f"{name}.bin" for name in BATCHES), ("test_batch.bin",), 0)
BINARY_100 = (("train.bin",), ("test.bin",), 1)  # after the column of coarse labels
LAYOUTS = {
    "cifar-10-python.tar.gz": PICKLED_10,
    "cifar-10-batches-py": PICKLED_10,
    "cifar-10-binary.tar.gz": BINARY_10,
    "cifar-10-batches-bin": BINARY_10,
    "cifar-100-python.tar.gz": PICKLED_100,
    "cifar-100-python": PICKLED_100,
    "cifar-100-binary.tar.gz": BINARY_100,
    "cifar-100-binary": BINARY_100,
}
CIFAR10_FILES = ("cifar10.zip", *(name for name in LAYOUTS if "-10-" in name))
CIFAR100_FILES = tuple(name for name in LAYOUTS if "-100-" in name)


def read_cifar(path):
    """Read both parts of CIFAR, `(images, labels)`, from an archive or its unpacked folder."""
    if path.name == "cifar10.zip":
        return _read_zip(path)
    *files, label = LAYOUTS[path.name]
    if path.is_dir():
        blobs = {name: (path / name).read_bytes() for names in files for name in names}
    else:
        with tarfile.open(fileobj=io.BytesIO(read_file(path)), mode="r:gz") as archive:
            members = [member for member in archive if member.isfile()]
            blobs = {Path(one.name).name: archive.extractfile(one).read() for one in members}
    parts = []
    for names in files:
        if empty := [name for name in names if not blobs[name]]:
            raise ValueError(f"Files of CIFAR must not be empty. Received: {path / empty[0]}")
        images, labels = zip(*(_decode(blobs[name], label) for name in names), strict=True)
        parts.append((np.concatenate(images), np.concatenate(labels)))
    return parts


def _decode(blob, label):
    """Return the images and labels of a file."""
    if isinstance(label, int):
        rows = np.frombuffer(blob, "uint8").reshape(-1, label + 1 + np.prod(SHAPE))
        pixels, labels = rows[:, label + 1 :], rows[:, label]
    else:
        batch = ArrayUnpickler(io.BytesIO(blob), encoding="bytes").load()
        pixels, labels = batch[b"data"], np.array(batch[label], "uint8")
    return pixels.reshape(len(labels), *SHAPE).transpose(0, 2, 3, 1), labels


class ArrayUnpickler(pickle.Unpickler):
    """Unpickle NumPy arrays and plain values of Python; refuse all other classes and functions."""

    def find_class(self, module: str, name: str) -> Any:
        if f"{module}.{name}" == "numpy.core.multiarray._reconstruct":
            return np.zeros(0).__reduce__()[0]  # NumPy 2 has moved it
        if (module, name) in (("numpy", "ndarray"), ("numpy", "dtype")):
            return getattr(np, name)
        raise pickle.UnpicklingError(f"the pickle asks for {module}.{name}")


def _read_zip(path):
    """Read labels, and images that are stored as WebP strips of images stacked downwards."""
    parts = []
    with zipfile.ZipFile(io.BytesIO(read_file(path))) as archive:
        for part in ("train", "test"):
            names = sorted(fnmatch.filter(archive.namelist(), f"{part}*.webp"))
            strips = [np.asarray(Image.open(io.BytesIO(archive.read(name)))) for name in names]
            labels = np.frombuffer(archive.read(f"{part}_labels.bin"), "uint8")
            parts.append((np.concatenate(strips).reshape(-1, 32, 32, 3), labels))
    return parts
