"""Load image sets as arrays, cut contact sheets, and generate images."""

import contextlib
import json
import pickle
import tarfile
import zlib
from pathlib import Path

import keras
import numpy as np
from filelock import FileLock

from keras_permix._typing import StrPath
from keras_permix.data.dataset import Dataset
from keras_permix.data.files import DATA_VARIABLE, find_layout, read_file
from keras_permix.data.images.cifar import CIFAR10_FILES, CIFAR100_FILES, read_cifar
from keras_permix.data.images.decode import read_image
from keras_permix.data.images.tiny_imagenet import FOLDER, read_tiny_imagenet
from keras_permix.utils.checks import check_choice
from keras_permix.utils.files import cache_folder
from keras_permix.utils.tables import unpack

MNIST_LABELS = tuple("0123456789")

CIFAR10_LABELS = (
    "airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck",
)  # fmt: skip

CIFAR100_LABELS = tuple(
    """
    apple aquarium_fish baby bear beaver bed bee beetle bicycle bottle bowl boy bridge bus
    butterfly camel can castle caterpillar cattle chair chimpanzee clock cloud cockroach couch
    crab crocodile cup dinosaur dolphin elephant flatfish forest fox girl hamster house kangaroo
    keyboard lamp lawn_mower leopard lion lizard lobster man maple_tree motorcycle mountain mouse
    mushroom oak_tree orange orchid otter palm_tree pear pickup_truck pine_tree plain plate poppy
    porcupine possum rabbit raccoon ray road rocket rose sea seal shark shrew skunk skyscraper
    snail snake spider squirrel streetcar sunflower sweet_pepper table tank telephone television
    tiger tractor train trout tulip turtle wardrobe whale willow_tree wolf woman worm
    """.split()
)


def load_images(name: str, data_dir: StrPath | None = None) -> Dataset:
    """Load an image set into memory.

    The files are read from `data_dir`, else from the folder in `KERAS_PERMIX_DATA`. Otherwise Keras
    downloads the set, except Tiny-ImageNet. These files are supported:

    - CIFAR: `cifar-10-python.tar.gz`, `cifar-10-binary.tar.gz`, their unpacked folders, the same
      for CIFAR-100, or `cifar10.zip` with lossless WebP strips;
    - MNIST: the four files such as `train-images-idx3-ubyte`, with or without `.gz`, or
      `mnist-train-images-idx3-ubyte.gz` and so on;
    - Tiny-ImageNet: the folder `tiny-imagenet-200`. Its images are decoded once and then read from
      Keras' cache (1.4 GB). The validation images are used for testing.

    Archives are checked against their SHA-256. Pickles are read without executing code.

    Args:
        name: `"cifar10"`, `"cifar100"`, `"mnist"` or `"tiny_imagenet"`.
        data_dir: Folder of the files, or None.

    Returns:
        A `Dataset` of parts `(x, y)`: x uint8 `(images, height, width, channels)`, levels 0 to
        255; y int32 `(images,)`, an index into `labels`. MNIST images are `(28, 28, 1)`, those of
        Tiny-ImageNet `(64, 64, 3)`, the others `(32, 32, 3)`.

    Raises:
        ValueError: If the name is unknown or a file is damaged.
        FileNotFoundError: If `data_dir` lacks the set or a file of it, the folder of
            `KERAS_PERMIX_DATA` does not exist, or there is no Tiny-ImageNet.
        ConnectionError: If the download fails.

    Example:
        >>> images, labels = load_images("mnist").train  # doctest: +SKIP
        >>> images.shape, labels.shape  # doctest: +SKIP
        ((60000, 28, 28, 1), (60000,))

    Reference: [Krizhevsky, 2009](https://www.cs.toronto.edu/~kriz/cifar.html) for CIFAR,
    [LeCun, Bottou, Bengio and Haffner, 1998](https://doi.org/10.1109/5.726791) for MNIST,
    [Le and Yang, 2015](http://vision.stanford.edu/teaching/cs231n/reports/2015/pdfs/yle_project.pdf)
    for Tiny-ImageNet.
    """
    labels, layouts, read, module = SETS[check_choice("name", name, SETS)]
    found = find_layout(data_dir, layouts, or_none=module is not None)
    if found is None:
        train, test, *own = _download(name, module)
    else:
        folder, files = found
        try:
            train, test, *own = read(*(folder / file for file in files))
        except DAMAGED as error:
            found = f"{', '.join(files)} in {folder}"
            raise ValueError(f"{found} must be undamaged. Received: {error!r}") from error
    return Dataset(name, _standardized(*train), _standardized(*test), *(own or [labels]))


def _standardized(x, y):
    if x.ndim == 3:
        x = x[..., None]
    return np.ascontiguousarray(x, "uint8"), np.asarray(y, "int32").reshape(-1)


def _download(name, module):
    try:
        with contextlib.ExitStack() as stack:
            # Keras writes the file in place, and several processes of a run load it at once. A
            # folder that is read-only holds the file already.
            with contextlib.suppress(OSError):
                cache_folder().mkdir(parents=True, exist_ok=True)
                stack.enter_context(FileLock(cache_folder() / f".{name}.lock"))
            parts = module.load_data()
    except Exception as error:  # Keras raises a plain `Exception` if the network fails.
        raise ConnectionError(
            f"{name} could not be downloaded. Set {DATA_VARIABLE} (or `data_dir`, `--data-dir`) to "
            f"a folder that contains its files. Received: {error}"
        ) from error
    if keras.config.image_data_format() == "channels_first" and parts[0][0].ndim == 4:
        return tuple((np.moveaxis(x, 1, -1), y) for x, y in parts)
    return parts


def _read_mnist(*paths):
    """Return the training and the test part: images and labels each."""
    values = [_read_idx(path) for path in paths]
    return values[:2], values[2:]


def _read_idx(path):
    """Decode the idx format: two zeros, dtype, rank, big-endian sizes, then the values."""
    blob = unpack(read_file(path), path.suffix)
    shape = np.frombuffer(blob, ">u4", blob[3], offset=4)
    return np.frombuffer(blob, "uint8", offset=4 + 4 * blob[3]).reshape(shape)


# Errors of the readers.
DAMAGED = (ValueError, LookupError, EOFError, pickle.UnpicklingError, tarfile.TarError, zlib.error)
PIECES = ("train-images-idx3", "train-labels-idx1", "t10k-images-idx3", "t10k-labels-idx1")
MNIST_FORMS = tuple(
    tuple(pattern.format(piece) for piece in PIECES)
    for pattern in ("mnist-{}-ubyte.gz", "{}-ubyte.gz", "{}-ubyte")
)
# name -> labels, file layouts, function that reads one, module of Keras that downloads it
SETS = {
    "cifar10": (
        CIFAR10_LABELS, [(name,) for name in CIFAR10_FILES], read_cifar, keras.datasets.cifar10
    ),
    "cifar100": (
        CIFAR100_LABELS, [(name,) for name in CIFAR100_FILES], read_cifar, keras.datasets.cifar100
    ),
    "mnist": (MNIST_LABELS, MNIST_FORMS, _read_mnist, keras.datasets.mnist),
    "tiny_imagenet": (None, [(FOLDER,)], read_tiny_imagenet, None),
}  # fmt: skip


def load_sheet(path: StrPath) -> tuple[np.ndarray, np.ndarray, tuple[str, ...]]:
    """Load labeled images from a contact sheet.

    A JSON file of the same name holds the side of a tile (`"tile"`) and the names of the classes
    (`"labels"`). It lists the class of each tile, row by row from the top left (`"targets"`).

    Args:
        path: Path of the PNG file.

    Returns:
        `(x, y, labels)`: uint8 `(images, tile, tile, 3)`, int32 `(images,)`, a tuple of str.

    Raises:
        FileNotFoundError: If one of the two files is missing.

    Example:
        >>> x, y, labels = load_sheet("examples/images/cifar10_test.png")  # doctest: +SKIP
    """
    path = Path(path)
    about = json.loads(path.with_suffix(".json").read_text(encoding="utf-8"))
    tile, y = about["tile"], np.array(about["targets"], "int32")
    sheet = read_image(path)
    height, width, _ = sheet.shape
    x = sheet.reshape(height // tile, tile, width // tile, tile, 3).swapaxes(1, 2)
    return x.reshape(-1, tile, tile, 3)[: len(y)].copy(), y, tuple(about["labels"])


def generated_images(
    shape: tuple[int, int, int], num_classes: int, count: int, seed: int = 0
) -> Dataset:
    """Generate images with learnable classes, for trial runs.

    Each class is a coarse color pattern with noise.

    Args:
        shape: Tuple `(height, width, channels)`.
        num_classes: Int, number of classes.
        count: Int, number of training images. A quarter as many, at least one, are for testing.
        seed: Int ≥ 0; the same seed gives the same images. Default: 0.

    Returns:
        A `Dataset` whose classes alternate.

    Example:
        >>> generated_images((32, 32, 3), num_classes=10, count=64).train[0].shape
        (64, 32, 32, 3)
    """
    rng = np.random.default_rng(seed)
    coarse = rng.integers(40, 216, (num_classes, 4, 4, shape[2]))
    train, test = (_noisy(coarse, shape, n, rng) for n in (count, max(1, count // 4)))
    labels = tuple(f"class {number}" for number in range(num_classes))
    return Dataset("generated", train, test, labels)


def _noisy(coarse, shape, count, rng):
    rows, columns = (np.arange(size) * 4 // size for size in shape[:2])
    y = np.arange(count, dtype="int32") % len(coarse)
    noise = rng.integers(-40, 40, (count, *shape), dtype="int16")
    return (coarse[y][:, rows][:, :, columns] + noise).astype("uint8"), y
