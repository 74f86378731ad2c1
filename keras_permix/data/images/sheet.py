"""Small labeled images on a contact sheet: a PNG, and a JSON file beside it."""

import json
from pathlib import Path

import numpy as np

from keras_permix._typing import StrPath
from keras_permix.data.images.decode import read_image


def load_sheet(path: StrPath) -> tuple[np.ndarray, np.ndarray, tuple[str, ...]]:
    """Load images from a contact sheet.

    The JSON file of the same name says how large a tile is (`"tile"`), what it shows
    (`"targets"`, an int for each tile, row by row from the top left) and what the numbers mean
    (`"labels"`).

    Args:
        path: The PNG file.

    Returns:
        `(x, y, labels)`: uint8 `(images, tile, tile, 3)`, int32 `(images,)`, a tuple of str.

    Raises:
        FileNotFoundError: if one of the two files is missing.
        ValueError: if they do not fit each other.

    Example:

    >>> x, y, labels = load_sheet("examples/images/cifar10_test.png")  # doctest: +SKIP
    """
    path = Path(path)
    for file in (path, path.with_suffix(".json")):
        if not file.is_file():
            raise FileNotFoundError(
                f"A contact sheet is a PNG and a JSON file of one name. Received: no file {file}"
            )
    about = json.loads(path.with_suffix(".json").read_text(encoding="utf-8"))
    tile, y = about["tile"], np.array(about["targets"], "int32")
    sheet = read_image(path)
    height, width, _ = sheet.shape
    if height % tile or width % tile or (height // tile) * (width // tile) < len(y):
        raise ValueError(
            "A contact sheet must be whole tiles, one for each target. "
            f"Received: {path} of {width} x {height} pixels, tile={tile}, {len(y)} targets"
        )
    x = sheet.reshape(height // tile, tile, width // tile, tile, 3).swapaxes(1, 2)
    return x.reshape(-1, tile, tile, 3)[: len(y)].copy(), y, tuple(about["labels"])
