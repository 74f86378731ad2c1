"""Whether images are of 0–255, which no shape and no error tells, but the answers do."""

import keras
import numpy as np

RANGE = (0, 255)
OVERSHOOT = 64  # of both ends, which resampling filters of floats may pass
DEEP = 1023  # above which levels are of 16 bits rather than of 8 that something was added to
SCALED = 8  # up to which floats are 0–1, -1…1 or standardized rather than nearly black
IMAGES = 64  # as many are looked at


def check_image_range(images):
    """Look at the values of some images, at equal distances.

    Args:
        images: An array or a tensor `(batch, height, width, channels)` or, of one channel,
            `(batch, height, width)`. Of another rank, it is for the model to refuse.

    Returns:
        A warning if they seem to be scaled already, else `None`.

    Raises:
        ValueError: if values cannot be of 0–255, or are not finite.

    Example:

    >>> from keras_permix.layers.embedding.image_range import check_image_range
    >>> check_image_range(np.full((1, 8, 8, 3), 0.5))[:43]
    '`x` must hold images of 0–255, and seems to'
    """
    known = isinstance(images, np.ndarray)
    dtype = images.dtype.name if known else keras.backend.standardize_dtype(images.dtype)
    if dtype == "object" or len(images.shape) not in (3, 4) or 0 in tuple(images.shape):
        return None
    some = keras.ops.convert_to_numpy(images[:: -(-len(images) // IMAGES)])
    low, high = float(np.min(some)), float(np.max(some))
    received = f"Received: x from {low:.6g} to {high:.6g}, {dtype}"
    if not np.isfinite(low + high):
        raise ValueError(f"`x` must hold images of 0–255, of finite numbers. {received}")
    whole = "int" in dtype
    overshoot = 0 if whole else OVERSHOOT
    if not (RANGE[0] - overshoot <= low and high <= RANGE[1] + overshoot):
        deep = " Those of 16 bits are divided by 257 first." if 0 <= low and high > DEEP else ""
        raise ValueError(
            f"`x` must hold images of 0–255, which the model itself scales.{deep} {received}"
        )
    if 0 < max(-low, high) <= (1 if whole else SCALED):
        return (
            "`x` must hold images of 0–255, and seems to be scaled already, which the model does "
            f"itself: give it the images as they were, or times 255 if they are of 0–1. {received}"
        )
    return None
