"""Load CIFAR-10 in grayscale, as sequences of pixels for the Long Range Arena."""

import numpy as np

from keras_permix._typing import StrPath
from keras_permix.data.dataset import Dataset
from keras_permix.data.images.sets import load_images
from keras_permix.utils.checks import check_integer

LUMINANCE = np.array([0.2989, 0.587, 0.114], "float32")  # of red, green and blue


def gray(images: np.ndarray) -> np.ndarray:
    """Convert uint8 RGB to grayscale `(…, 1)`, rounded as in TensorFlow's `rgb_to_grayscale`."""
    scaled = (images.astype("float32") / 255) @ LUMINANCE
    return (scaled * 255.5).astype("uint8")[..., None]


def load_pixels(data_dir: StrPath | None = None, *, validation: int = 5_000) -> Dataset:
    """Load CIFAR-10 in grayscale, with a validation part.

    `LRATransformer` and `MEGA` take these images and flatten them row by row. `LRATransformer`
    uses gray levels as token ids; `MEGA` normalizes them.

    Args:
        data_dir: Folder of the files, as for `load_images`. Default: `None`.
        validation: Int, number of the last training images used for validation. Default: 5,000.

    Returns:
        A `Dataset` of parts `(images, labels)`, as from `load_images` but with one channel: 45,000
        images for training, 5,000 for validation and 10,000 for testing.

    Raises:
        ValueError: If no images are left for training.

    Example:
        >>> load_pixels().train[0].shape  # doctest: +SKIP
        (45000, 32, 32, 1)

    Reference: [Tay et al., "Long Range Arena", 2020](https://arxiv.org/abs/2011.04006), which uses
    another validation part.
    """
    data = load_images("cifar10", data_dir)
    images, labels = data.train
    cut = len(labels) - check_integer("validation", validation, 0)
    if cut < 1:
        size = f"{len(labels)} images, {validation=}"
        raise ValueError(f"`validation` must leave images for training. Received: {size}")
    images, tests = gray(images), (gray(data.test[0]), data.test[1])
    train, held = (images[:cut], labels[:cut]), (images[cut:], labels[cut:])
    return Dataset("cifar10_gray", train, tests, data.labels, held)
