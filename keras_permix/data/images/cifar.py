"""Read CIFAR-10 and CIFAR-100 from their official archives, or from a smaller file."""

import io
import tarfile
import zipfile
from pathlib import Path
from typing import NamedTuple

import numpy as np

from keras_permix.data.files import read_file
from keras_permix.data.images.decode import decode_image
from keras_permix.data.unpickle import unpickle_arrays

SHAPE = (3, 32, 32)  # of an image, as the authors store it


class _Form(NamedTuple):
    """The files of both parts, and where labels are: a key of a pickle, or a column of bytes."""

    train: tuple
    test: tuple
    label: bytes | int


BATCHES = tuple(f"data_batch_{number}" for number in range(1, 6))
PICKLED_10 = _Form(BATCHES, ("test_batch",), b"labels")
PICKLED_100 = _Form(("train",), ("test",), b"fine_labels")
BINARY_10 = _Form(tuple(f"{name}.bin" for name in BATCHES), ("test_batch.bin",), 0)
BINARY_100 = _Form(("train.bin",), ("test.bin",), 1)  # after the column of coarse labels
FORMS = {
    "cifar-10-python.tar.gz": PICKLED_10,
    "cifar-10-batches-py": PICKLED_10,
    "cifar-10-binary.tar.gz": BINARY_10,
    "cifar-10-batches-bin": BINARY_10,
    "cifar-100-python.tar.gz": PICKLED_100,
    "cifar-100-python": PICKLED_100,
    "cifar-100-binary.tar.gz": BINARY_100,
    "cifar-100-binary": BINARY_100,
}
CIFAR10_FILES = ("cifar10.zip", *(name for name in FORMS if "-10-" in name))
CIFAR100_FILES = tuple(name for name in FORMS if "-100-" in name)


def read_cifar(path):
    """Read CIFAR from an archive or its unpacked folder.

    Args:
        path: One of `CIFAR10_FILES` or `CIFAR100_FILES`.

    Returns:
        Training and test part, `(images, labels)` each.

    Raises:
        FileNotFoundError: for a folder without one of its files.
        ValueError: for a damaged file.
    """
    if path.name == "cifar10.zip":
        return _read_zip(path)
    form = FORMS[path.name]
    blobs = _in_archive(path) if path.name.endswith(".tar.gz") else _in_folder(path, form)
    return tuple(
        _joined([_decoded(blobs[name], form.label, path / name) for name in names])
        for names in (form.train, form.test)
    )


def _in_archive(path):
    with tarfile.open(fileobj=io.BytesIO(read_file(path)), mode="r:gz") as archive:
        files = (member for member in archive if member.isfile())
        return {Path(file.name).name: archive.extractfile(file).read() for file in files}


def _in_folder(path, form):
    for name in (*form.train, *form.test):
        if not (path / name).is_file():
            raise FileNotFoundError(
                f"`{path}` must hold all files of its set. Received: a folder without {name}"
            )
    return {name: (path / name).read_bytes() for name in (*form.train, *form.test)}


def _joined(batches):
    images, labels = zip(*batches, strict=True)
    return np.concatenate(images), np.concatenate(labels)


def _decoded(blob, label, path):
    try:
        rows, labels = _binary(blob, label) if isinstance(label, int) else _pickled(blob, label)
        if not len(labels):
            raise ValueError("no images")
        images = rows.reshape(len(labels), *SHAPE).transpose(0, 2, 3, 1)
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError) as error:
        raise ValueError(
            f"A file of CIFAR must be whole. Unpack or fetch it again. Received: {path} ({error})"
        ) from error
    return images, labels


def _pickled(blob, key):
    batch = unpickle_arrays(blob)
    return batch[b"data"], np.array(batch[key], "uint8")


def _binary(blob, column):
    """Rows of one or two labels, a byte each, and then the pixels, channel by channel."""
    rows = np.frombuffer(blob, "uint8").reshape(-1, column + 1 + np.prod(SHAPE))
    return rows[:, column + 1 :], rows[:, column]


def _read_zip(path):
    with zipfile.ZipFile(io.BytesIO(read_file(path))) as archive:
        return tuple(_read_strips(archive, part) for part in ("train", "test"))


def _read_strips(archive, part):
    """Decode the images of a part, stored as strips of images stacked downwards."""
    names = sorted(n for n in archive.namelist() if n.startswith(part) and n.endswith(".webp"))
    strips = [decode_image(io.BytesIO(archive.read(name)))[0] for name in names]
    labels = np.frombuffer(archive.read(f"{part}_labels.bin"), "uint8")
    return np.concatenate(strips).reshape(-1, 32, 32, 3), labels
