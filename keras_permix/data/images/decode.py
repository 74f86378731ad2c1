"""Decode image files to upright 8-bit arrays without transparency."""

import warnings
from pathlib import Path

import numpy as np
from PIL import Image, ImageOps

from keras_permix._typing import StrPath

SIXTEEN_BITS = ("I", "I;16", "I;16B", "I;16L", "I;16N")  # Pillow's modes of one wide channel
PHOTOMETRIC = 262  # the tag of a TIFF that defines whether 0 is black or white
FACTORS = {"L;2": 85, "L;4": 17}  # from levels of 2 and 4 bits to 8 bits


def read_image(path: StrPath, channels: int = 3) -> np.ndarray:
    """Read an image file as a uint8 array.

    The EXIF orientation is applied. 16-bit levels are scaled from 0–65535 to 8 bits, palettes and
    CMYK are converted to RGB, and transparent pixels become white.

    Args:
        path: Path of a file in any format that Pillow supports. Animations give the first frame.
        channels: Int, 3 for RGB or 1 for grayscale. Default: 3.

    Returns:
        A uint8 array `(height, width, channels)`, 0–255.

    Raises:
        FileNotFoundError: If the file does not exist.
        ValueError: If the file is not an image or is damaged, or `channels` is not 1 or 3.
        TypeError: If `path` is not a path.

    Example:
        >>> from keras_permix.data import read_image
        >>> read_image("cat.jpg").shape  # doctest: +SKIP
        (480, 640, 3)
    """
    if channels not in (1, 3):
        raise ValueError(f"`channels` must be 1 or 3, for gray or RGB. Received: {channels}")
    # Pillow would map an uncompressed TIFF at a path into memory and lose its orientation.
    with Path(path).open("rb") as file:
        try:
            with Image.open(file) as image:
                pixels = image_pixels(image, channels)
                is_wide = image.mode in SIXTEEN_BITS
                dark = is_wide and pixels.max() <= 1 and np.asarray(image).any()
        except Exception as error:  # Decoders raise different errors.
            rule = "An image must be undamaged, and readable by Pillow"
            raise ValueError(f"{rule}. Received: {path} ({error})") from error
    if dark:
        # Python shows it once per folder.
        warnings.warn(
            "All values of a 16-bit image are close to 0, and it becomes black. Save it with 8 "
            f"bits. Received: an image in {Path(path).parent}",
            stacklevel=2,
        )
    return pixels


def image_pixels(image: Image.Image, channels: int = 3) -> np.ndarray:
    """Return the pixels of a Pillow image as `read_image` does."""
    tiles = getattr(image, "tile", None)
    stored = tiles[0][3] if tiles else ""
    stored = stored if isinstance(stored, str) else next(iter(stored or ("",)))
    white_is_zero = getattr(image, "tag_v2", {}).get(PHOTOMETRIC) == 0
    image.load()
    # Pillow scales the levels of a PNG to 8 bits, but not its transparent color.
    color = image.info.get("transparency")
    if stored in FACTORS and isinstance(color, int):
        image.info["transparency"] = color * FACTORS[stored]
    elif stored == "RGB;16B" and isinstance(color, tuple):
        image.info["transparency"] = tuple(level >> 8 for level in color)
    try:
        image = ImageOps.exif_transpose(image)
    except Exception:  # Pillow raises many types for damaged EXIF data.
        pass
    image = _to_eight_bits(image, 4095 if stored == "I;12" else 65535, white_is_zero)
    pixels = np.asarray(image.convert("L" if channels == 1 else "RGB"))
    return pixels.reshape(*pixels.shape[:2], channels)


def _to_eight_bits(image, most, white_is_zero):
    """Convert an image of 8 bits, or of levels from 0 to `most`, to 8 bits without transparency."""
    if image.mode in SIXTEEN_BITS:
        levels = np.asarray(image)
        if levels.min() < 0 or levels.max() > most:
            raise ValueError(f"pixels from {levels.min()} to {levels.max()}, not from 0 to {most}")
        pixels = ((2 * 255 * levels.astype("int64") + most) // (2 * most)).astype("uint8")
        pixels = 255 - pixels if white_is_zero else pixels
        transparent = levels == image.info.get("transparency")
        return Image.fromarray(np.where(transparent, np.uint8(255), pixels))
    if image.mode == "F":
        raise ValueError("pixels are floats of an unknown range")
    if not image.has_transparency_data:
        return image
    image = image.convert("LA") if image.mode == "La" else image
    image = image.convert("RGBA")
    return Image.alpha_composite(Image.new("RGBA", image.size, "white"), image)
