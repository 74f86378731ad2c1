"""CIFAR-10, CIFAR-100 and MNIST as arrays."""

import gzip
import io
import zipfile

import keras
import numpy as np

from keras_permix.data.dataset import Dataset
from keras_permix.data.files import DATA_VARIABLE, find_folder, read_verified
from keras_permix.data.images.labels import CIFAR10_LABELS, CIFAR100_LABELS, MNIST_LABELS
from keras_permix.data.images.pillow import pillow_image
from keras_permix.ops.dispatch.checks import check_choice


def load_images(name, data_dir=None):
    """Load an image set into memory.

    The files are looked for in `data_dir`, else in the folder that the environment variable
    `KERAS_PERMIX_DATA` names, else had through Keras' own download (kept in Keras' cache).
    Files in a folder are `cifar10.zip` (lossless WebP strips; needs Pillow) and the four
    original `mnist-*-ubyte.gz`; each is checked against its SHA-256. CIFAR-100 comes by
    download only.

    Args:
        name: `"cifar10"`, `"cifar100"` or `"mnist"`.
        data_dir: folder of the files, or None.

    Returns:
        A `Dataset` of parts `(x, y)`: x uint8 `(images, height, width, channels)`, levels 0 to
        255; y int32 `(images,)`, an index into `labels`. MNIST images are `(28, 28, 1)`, the
        others `(32, 32, 3)`.

    Raises:
        ValueError: for an unknown name, or a file whose checksum is wrong.
        FileNotFoundError: if `data_dir` is given and lacks a file.
        ConnectionError: if the download fails.
        ImportError: if `cifar10.zip` is to be read and Pillow is missing.

    Example:

    >>> images, labels = load_images("mnist").train  # doctest: +SKIP
    >>> images.shape, labels.shape  # doctest: +SKIP
    ((60000, 28, 28, 1), (60000,))

    Source: [Krizhevsky, 2009](https://www.cs.toronto.edu/~kriz/cifar.html) for CIFAR,
    [LeCun, Bottou, Bengio and Haffner, 1998](https://doi.org/10.1109/5.726791) for MNIST.
    """
    labels, files, read, module = SETS[check_choice("name", name, SETS)]
    if data_dir is not None and not files:
        raise ValueError(
            f"{name} is only had by download: leave `data_dir=None`. Received: data_dir={data_dir}"
        )
    folder = find_folder(data_dir, files) if files else None
    parts = _download(name, module) if folder is None else read(folder)
    train, test = (_standardized(*part) for part in parts)
    return Dataset(name, train, test, labels)


def _standardized(x, y):
    if x.ndim == 3:
        x = x[..., None]
    return np.ascontiguousarray(x, "uint8"), np.asarray(y, "int32").reshape(-1)


def _download(name, module):
    try:
        parts = module.load_data()
    except Exception as error:  # Keras raises a bare Exception where the network fails.
        raise ConnectionError(
            f"{name} could not be downloaded. Connect to the internet, or set {DATA_VARIABLE} (or "
            f"`data_dir`) to a folder that holds its files. Received: {error}"
        ) from error
    if keras.config.image_data_format() == "channels_first" and parts[0][0].ndim == 4:
        return tuple((np.moveaxis(x, 1, -1), y) for x, y in parts)
    return parts


def _read_mnist(folder):
    return tuple(
        tuple(
            _read_idx(read_verified(folder / f"mnist-{part}-{kind}-ubyte.gz"))
            for kind in ("images-idx3", "labels-idx1")
        )
        for part in ("train", "t10k")
    )


def _read_idx(blob):
    """Decode the idx format: two zeros, dtype, rank, big-endian sizes, then the values."""
    blob = gzip.decompress(blob)
    rank = blob[3]
    shape = np.frombuffer(blob, ">u4", rank, offset=4)
    return np.frombuffer(blob, "uint8", offset=4 + 4 * rank).reshape(shape)


def _read_cifar10(folder):
    with zipfile.ZipFile(io.BytesIO(read_verified(folder / "cifar10.zip"))) as archive:
        return tuple(_read_strips(archive, part) for part in ("train", "test"))


def _read_strips(archive, part):
    """Decode the images of a part, stored as strips of images stacked downwards."""
    image = pillow_image()
    names = sorted(n for n in archive.namelist() if n.startswith(part) and n.endswith(".webp"))
    strips = [np.asarray(image.open(io.BytesIO(archive.read(n))).convert("RGB")) for n in names]
    labels = np.frombuffer(archive.read(f"{part}_labels.bin"), "uint8")
    return np.concatenate(strips).reshape(-1, 32, 32, 3), labels


SETS = {
    "cifar10": (CIFAR10_LABELS, ("cifar10.zip",), _read_cifar10, keras.datasets.cifar10),
    "cifar100": (CIFAR100_LABELS, (), None, keras.datasets.cifar100),
    "mnist": (
        MNIST_LABELS,
        tuple(f"mnist-{p}-ubyte.gz" for p in (
            "train-images-idx3", "train-labels-idx1", "t10k-images-idx3", "t10k-labels-idx1"
        )),
        _read_mnist,
        keras.datasets.mnist,
    ),
}  # fmt: skip
