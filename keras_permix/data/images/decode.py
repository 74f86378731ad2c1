"""Image files as arrays: upright, of 8 bits, without transparency."""

import os
import warnings
from pathlib import Path

import numpy as np
from PIL import Image, ImageOps

from keras_permix._typing import StrPath

SIXTEEN_BITS = ("I", "I;16", "I;16B", "I;16L", "I;16N")  # Pillow's modes of one wide channel


def read_image(path: StrPath, channels: int = 3) -> np.ndarray:
    """Read an image file as people see it.

    A photograph is rotated upright as its EXIF orientation says. 16 bits, which mean levels of
    0–65535 however few of them an image has, become 8; palettes become colors, CMYK becomes RGB,
    and what is transparent shows white.

    Args:
        path: A file of any format that Pillow reads; of an animation, the first frame.
        channels: 3 for RGB, 1 for gray.

    Returns:
        A uint8 array `(height, width, channels)`, 0–255.

    Raises:
        FileNotFoundError: if there is no such file.
        ValueError: if the file is no image, or a damaged one, or `channels` are not 1 or 3.
        TypeError: if `path` is no path.

    Example:

    >>> from keras_permix.data import read_image
    >>> read_image("cat.jpg").shape  # doctest: +SKIP
    (480, 640, 3)
    """
    if channels not in (1, 3):
        raise ValueError(f"`channels` must be 1 or 3, for gray or RGB. Received: {channels}")
    if not isinstance(path, str | os.PathLike):
        raise TypeError(f"`path` must be that of an image file. Received: path={str(path)[:99]!r}")
    if not Path(path).is_file():
        found = f"the folder {path}" if str(path) and Path(path).is_dir() else f"{path}" or "''"
        raise FileNotFoundError(
            f"An image must be a file that exists, one at a time. Received: {found}"
        )
    try:
        with Image.open(path) as file:
            dark = _is_dark(file)
            file.load()
            image = _flat(_upright(file))
            pixels = np.asarray(image.convert("L" if channels == 1 else "RGB"))
    except Exception as error:  # Each decoder has exceptions of its own.
        raise ValueError(
            f"An image file must be whole, and one that Pillow can read. Received: {path} ({error})"
        ) from error
    if dark:
        # Said once of a folder, since Python does not repeat what it has said.
        warnings.warn(
            "An image of 16 bits has levels of 0–65535, of which those of 0–255 read as black. "
            f"Save such levels with 8 bits. Received: one in {Path(path).parent}",
            stacklevel=2,
        )
    return pixels.reshape(*pixels.shape[:2], channels)


def _upright(image):
    """An image whose pixels are loaded, as its EXIF would turn it, where that can be read."""
    try:
        return ImageOps.exif_transpose(image)
    except Exception:  # Pillow has many.
        return image


def _is_dark(image):
    """Whether the levels of a gray image of 16 bits would do for 8, and not all are 0."""
    return image.mode in SIXTEEN_BITS and 0 < np.asarray(image).max(initial=0) < 256


def _flat(image):
    """An image of 8 bits without transparency."""
    if image.mode in SIXTEEN_BITS:
        return Image.fromarray(_eight_bits(np.asarray(image)))
    if image.mode == "F":
        raise ValueError("pixels are floats, whose range is not known")
    if not image.has_transparency_data:
        return image
    image = image.convert("RGBA")
    return Image.alpha_composite(Image.new("RGBA", image.size, "white"), image)


def _eight_bits(pixels):
    """Levels 0 to 65535 as the nearest of 0 to 255."""
    if pixels.min() < 0 or pixels.max() > 65535:
        raise ValueError(f"pixels are from {pixels.min()} to {pixels.max()}, not of 16 bits")
    return ((pixels.astype("int64") + 128) // 257).astype("uint8")
