"""Decode image files to upright 8-bit arrays without transparency."""

import numpy as np
from PIL import Image, ImageOps

from keras_permix._typing import StrPath

SIXTEEN_BITS = ("I", "I;16", "I;16B", "I;16L", "I;16N")  # Pillow's modes of one wide channel


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

    Example:

    >>> from keras_permix.data import read_image
    >>> read_image("cat.jpg").shape  # doctest: +SKIP
    (480, 640, 3)
    """
    if channels not in (1, 3):
        raise ValueError(f"`channels` must be 1 or 3, for gray or RGB. Received: {channels}")
    # Pillow would map an uncompressed TIFF at a path into memory and lose its orientation.
    with open(path, "rb") as file:
        try:
            with Image.open(file) as image:
                return image_pixels(image, channels)
        except Exception as error:  # Decoders raise different errors.
            raise ValueError(
                "An image file must be undamaged, and readable by Pillow. "
                f"Received: {path} ({error})"
            ) from error


def image_pixels(image: Image.Image, channels: int = 3) -> np.ndarray:
    """Return the pixels of a Pillow image as `read_image` does."""
    image.load()
    try:
        image = ImageOps.exif_transpose(image)
    except Exception:  # Pillow raises many types for damaged EXIF data.
        pass
    pixels = np.asarray(_to_eight_bits(image).convert("L" if channels == 1 else "RGB"))
    return pixels.reshape(*pixels.shape[:2], channels)


def _to_eight_bits(image):
    """Convert an image of 8 or 16 bits to 8 bits without transparency."""
    if image.mode in SIXTEEN_BITS:
        levels = np.asarray(image)
        if levels.min() < 0 or levels.max() > 65535:
            raise ValueError(f"pixels are from {levels.min()} to {levels.max()}, not 0 to 65535")
        pixels = ((levels.astype("int64") + 128) // 257).astype("uint8")
        transparent = levels == image.info.get("transparency")
        return Image.fromarray(np.where(transparent, np.uint8(255), pixels))
    if image.mode == "F":
        raise ValueError("pixels are floats of an unknown range")
    if not image.has_transparency_data:
        return image
    image = image.convert("RGBA")
    return Image.alpha_composite(Image.new("RGBA", image.size, "white"), image)
