"""Decode image files to upright 8-bit arrays without transparency."""

import math
import os
import warnings
from pathlib import Path
from typing import BinaryIO

import numpy as np
from PIL import Image, ImageOps

from keras_permix._typing import StrPath

SIXTEEN_BITS = ("I", "I;16", "I;16B", "I;16L", "I;16N")  # Pillow's modes of one wide channel
PHOTOMETRIC = 262  # the tag of a TIFF that says whether 0 is black or white
FACTORS = {"L;2": 85, "L;4": 17}  # of levels of 2 and 4 bits, which become 8


def read_image(path: StrPath, channels: int = 3) -> np.ndarray:
    """Read an image file as a uint8 array.

    The EXIF orientation is applied. 16-bit levels are scaled from 0–65535 to 8 bits, palettes and
    CMYK are converted to RGB, and transparent pixels become white.

    Args:
        path: Path of a file in any format that Pillow supports. Animations give the first frame.
        channels: Int, 3 for RGB or 1 for grayscale.

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
        with open(path, "rb") as file:
            pixels, dark = decode_image(file, channels)
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
    return pixels


def decode_image(file: BinaryIO, channels: int = 3) -> tuple[np.ndarray, bool]:
    """Decode an open image file.

    Pillow gets a file object and no path: it would map an uncompressed TIFF into memory and lose
    its orientation.

    Args:
        file: The file, opened for reading bytes.
        channels: As in `read_image`.

    Returns:
        `(pixels, dark)`: the array of `read_image`, and whether the levels of a gray image of 16
        bits are all below 256, and not all 0.
    """
    with Image.open(file) as image:
        if image.width * image.height > (Image.MAX_IMAGE_PIXELS or math.inf):
            raise ValueError(
                f"{image.width} x {image.height} pixels are more than the "
                f"{Image.MAX_IMAGE_PIXELS} of Pillow's `Image.MAX_IMAGE_PIXELS`"
            )
        stored = image.tile[0][3] if image.tile else ""
        stored = stored if isinstance(stored, str) else next(iter(stored or ("",)))
        white_is_zero = getattr(image, "tag_v2", {}).get(PHOTOMETRIC) == 0
        image.load()
        # Pillow scales the pixels of a PNG to 8 bits, but not its transparent color.
        color = image.info.get("transparency")
        if stored in FACTORS and isinstance(color, int):
            image.info["transparency"] = color * FACTORS[stored]
        elif stored == "RGB;16B" and isinstance(color, tuple):
            image.info["transparency"] = tuple(level >> 8 for level in color)
        twelve = stored == "I;12"
        dark = not twelve and _is_dark(image)
        flat = _flat(_upright(image), 4095 if twelve else 65535, white_is_zero)
        return _pixels(flat, channels), dark


def image_pixels(image: Image.Image, channels: int = 3) -> np.ndarray:
    """The pixels of an image of Pillow as `read_image` returns them."""
    image.load()
    return _pixels(_flat(_upright(image)), channels)


def _pixels(image, channels):
    pixels = np.asarray(image.convert("L" if channels == 1 else "RGB"))
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


def _flat(image, most=65535, white_is_zero=False):
    """An image of 8 bits without transparency, of one of 8 bits or of levels up to `most`."""
    color = image.info.get("transparency")
    if image.mode in SIXTEEN_BITS:
        levels = np.asarray(image)
        pixels = _eight_bits(levels, most)
        pixels = 255 - pixels if white_is_zero else pixels
        return Image.fromarray(np.where(levels == color, np.uint8(255), pixels))
    if image.mode == "F":
        raise ValueError("pixels are floats, whose range is not known")
    if not image.has_transparency_data:
        return image
    image = image.convert("LA") if image.mode == "La" else image
    image = image.convert("RGBA")
    return Image.alpha_composite(Image.new("RGBA", image.size, "white"), image)


def _eight_bits(pixels, most):
    """Levels 0 to `most` as the nearest of 0 to 255."""
    if pixels.min() < 0 or pixels.max() > most:
        raise ValueError(f"pixels are from {pixels.min()} to {pixels.max()}, not of 0 to {most}")
    return ((2 * 255 * pixels.astype("int64") + most) // (2 * most)).astype("uint8")
