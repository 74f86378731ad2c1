"""Images made up, for trying out a run where the real ones are not at hand."""

import numpy as np

from keras_permix.data.dataset import Dataset


def generated_images(
    shape: tuple[int, int, int], num_classes: int, count: int, seed: int = 0
) -> Dataset:
    """Make images of any shape whose class can be learned.

    Each class is a coarse pattern of colors of its own, under noise.

    Args:
        shape: `(height, width, channels)`.
        num_classes: Number of classes.
        count: Training images; there are a quarter as many test images, at least one.
        seed: Int ≥ 0; the same seed gives the same images.

    Returns:
        A `Dataset`; its classes take turns.

    Raises:
        ValueError: if an argument is out of range.

    Example:

    >>> generated_images((32, 32, 3), num_classes=10, count=64).train[0].shape
    (64, 32, 32, 3)
    """
    if len(shape) != 3 or min(*shape, num_classes, count) < 1:
        raise ValueError(
            "`shape` must be (height, width, channels), and all numbers 1 or more. "
            f"Received: shape={shape}, num_classes={num_classes}, count={count}"
        )
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
