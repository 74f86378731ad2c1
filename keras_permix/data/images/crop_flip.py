"""Random crop and flip of each image of a batch, in NumPy.

Keras' `RandomCrop` cuts a whole batch at one offset and does not pad. Here each image has its
own offset, uint8 stays uint8, and a batch of 128 images of 32 x 32 takes well under a
millisecond, the same on every backend.
"""

import numpy as np


def random_crop(images, rng, padding):
    """Pad images with zeros on all sides and cut each back to its size at an offset of its own.

    Args:
        images: Array `(batch, height, width, channels)`.
        rng: A `numpy.random.Generator`.
        padding: Pixels on each side.

    Returns:
        An array of the shape and dtype of `images`.
    """
    batch, *shape = images.shape
    sides = ((0, 0), (padding, padding), (padding, padding), (0, 0))
    windows = np.lib.stride_tricks.sliding_window_view(np.pad(images, sides), shape, axis=(1, 2, 3))
    top, left = rng.integers(0, 2 * padding, (2, batch), endpoint=True)
    return windows[np.arange(batch), top, left, 0]


def random_flip(images, rng):
    """Mirror about half of the images left to right.

    Args:
        images: Array `(batch, height, width, channels)`.
        rng: A `numpy.random.Generator`.

    Returns:
        An array of the shape and dtype of `images`.
    """
    flipped = rng.random(len(images)) < 0.5
    images = images.copy()
    images[flipped] = images[flipped, :, ::-1]
    return images
