"""CIFAR-10, CIFAR-100, MNIST and Tiny-ImageNet as arrays."""

import zlib

import keras
import numpy as np
from filelock import FileLock

from keras_permix._typing import StrPath
from keras_permix.data.dataset import Dataset
from keras_permix.data.files import DATA_VARIABLE, find_forms, read_file
from keras_permix.data.images.cifar import CIFAR10_FILES, CIFAR100_FILES, read_cifar
from keras_permix.data.images.labels import CIFAR10_LABELS, CIFAR100_LABELS, MNIST_LABELS
from keras_permix.data.images.tiny_imagenet import FOLDER, read_tiny_imagenet
from keras_permix.utils.checks import check_choice
from keras_permix.utils.files import cache_folder
from keras_permix.utils.tables import unpack


def load_images(name: str, data_dir: StrPath | None = None) -> Dataset:
    """Load an image set into memory.

    The files are looked for in `data_dir`, else in the folder that the environment variable
    `KERAS_PERMIX_DATA` names, else had through Keras' own download (kept in Keras' cache; there is
    none of Tiny-ImageNet).
    A folder holds them as their authors give them away: `cifar-10-python.tar.gz`,
    `cifar-10-binary.tar.gz`, the same for CIFAR-100, or the folder that one is unpacked to;
    `train-images-idx3-ubyte` and the other three of MNIST, with or without `.gz`. Or smaller:
    `cifar10.zip` (lossless WebP strips), `mnist-train-images-idx3-ubyte.gz`.
    Of Tiny-ImageNet it is the folder `tiny-imagenet-200`, whose images are decoded once and then
    read from Keras' cache (1.4 GB); its validation images are for testing.
    Archives are checked against their SHA-256; from pickles nothing but arrays and lists is read.

    Args:
        name: `"cifar10"`, `"cifar100"`, `"mnist"` or `"tiny_imagenet"`.
        data_dir: Folder of the files, or None.

    Returns:
        A `Dataset` of parts `(x, y)`: x uint8 `(images, height, width, channels)`, levels 0 to
        255; y int32 `(images,)`, an index into `labels`. MNIST images are `(28, 28, 1)`, those of
        Tiny-ImageNet `(64, 64, 3)`, the others `(32, 32, 3)`.

    Raises:
        ValueError: for an unknown name, or a damaged file.
        FileNotFoundError: if `data_dir` is given and lacks the set, or a file of it, or the folder
            of `KERAS_PERMIX_DATA` does not exist; without Tiny-ImageNet.
        ConnectionError: if the download fails.

    Example:

    >>> images, labels = load_images("mnist").train  # doctest: +SKIP
    >>> images.shape, labels.shape  # doctest: +SKIP
    ((60000, 28, 28, 1), (60000,))

    Source: [Krizhevsky, 2009](https://www.cs.toronto.edu/~kriz/cifar.html) for CIFAR,
    [LeCun, Bottou, Bengio and Haffner, 1998](https://doi.org/10.1109/5.726791) for MNIST,
    [Le and Yang, 2015](http://vision.stanford.edu/teaching/cs231n/reports/2015/pdfs/yle_project.pdf)
    for Tiny-ImageNet.
    """
    labels, pieces, read, module = SETS[check_choice("name", name, SETS)]
    found = find_forms(data_dir, pieces)
    train, test, *own = _download(name, module) if found is None else read(*found)
    return Dataset(name, _standardized(*train), _standardized(*test), *(own or [labels]))


def _standardized(x, y):
    if x.ndim == 3:
        x = x[..., None]
    return np.ascontiguousarray(x, "uint8"), np.asarray(y, "int32").reshape(-1)


def _download(name, module):
    if module is None:
        raise FileNotFoundError(
            f"Set {DATA_VARIABLE} (or `data_dir`, `--data-dir`) to a folder that holds {FOLDER}: "
            f"{name} is not downloaded. Received: no folder with it"
        )
    try:
        # Keras writes the file in place, and the processes of a run load it at once.
        cache_folder().mkdir(parents=True, exist_ok=True)
        with FileLock(cache_folder() / f".{name}.lock"):
            parts = module.load_data()
    except Exception as error:  # Keras raises a bare Exception where the network fails.
        raise ConnectionError(
            f"{name} could not be downloaded. Connect to the internet, or set {DATA_VARIABLE} (or "
            f"`data_dir`, `--data-dir`) to a folder that holds its files. Received: {error}"
        ) from error
    if keras.config.image_data_format() == "channels_first" and parts[0][0].ndim == 4:
        return tuple((np.moveaxis(x, 1, -1), y) for x, y in parts)
    return parts


def _read_mnist(*paths):
    """Training images and labels, then those for testing."""
    values = [_read_idx(path) for path in paths]
    return values[:2], values[2:]


def _read_idx(path):
    """Decode the idx format: two zeros, dtype, rank, big-endian sizes, then the values."""
    blob = read_file(path)
    try:
        blob = unpack(blob, path.suffix)
        if blob[:3] != UINT8:
            raise ValueError(f"which begins with {blob[:3].hex()}, not {UINT8.hex()}")
        shape = np.frombuffer(blob, ">u4", blob[3], offset=4)
        return np.frombuffer(blob, "uint8", offset=4 + 4 * blob[3]).reshape(shape)
    except (ValueError, IndexError, EOFError, OSError, zlib.error) as error:
        raise ValueError(
            f"A file of MNIST must be whole. Unpack or fetch it again. Received: {path} ({error})"
        ) from error


UINT8 = bytes((0, 0, 8))  # how an idx file of unsigned bytes begins
MNIST_FILES = tuple(
    (f"mnist-{stem}-ubyte.gz", f"{stem}-ubyte.gz", f"{stem}-ubyte")
    for stem in ("train-images-idx3", "train-labels-idx1", "t10k-images-idx3", "t10k-labels-idx1")
)
SETS = {
    "cifar10": (CIFAR10_LABELS, (CIFAR10_FILES,), read_cifar, keras.datasets.cifar10),
    "cifar100": (CIFAR100_LABELS, (CIFAR100_FILES,), read_cifar, keras.datasets.cifar100),
    "mnist": (MNIST_LABELS, MNIST_FILES, _read_mnist, keras.datasets.mnist),
    "tiny_imagenet": (None, ((FOLDER,),), read_tiny_imagenet, None),
}
