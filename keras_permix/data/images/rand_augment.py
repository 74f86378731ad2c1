"""Apply RandAugment to each image with Pillow; Keras draws one operation per batch."""

import math
from collections.abc import Callable
from numbers import Real

import numpy as np
from PIL import Image, ImageEnhance, ImageOps

from keras_permix.utils.checks import check_integer

# Full strength, from table 6 of AutoAugment (https://arxiv.org/abs/1805.09501).
ROTATE, SHEAR, TRANSLATE, BLEND, POSTERIZE = math.radians(30), 0.3, 0.45, 0.9, 4
FILL = 128


class RandAugment:
    """Apply random operations to each image.

    Args:
        num_ops: Int ≥ 1, number of operations per image. Default: 2.
        factor: Float from 0 to 1, strength. Default: 0.3, which is 9 of 30 in the paper.

    Raises:
        ValueError: If an argument is out of range.

    Example:
        >>> import numpy as np
        >>> from keras_permix.data import RandAugment
        >>> images = np.zeros((8, 32, 32, 3), "uint8")
        >>> RandAugment(num_ops=2, factor=0.3)(images, np.random.default_rng(0)).shape
        (8, 32, 32, 3)

    Reference: [Cubuk, Zoph, Shlens and Le, 2020](https://arxiv.org/abs/1909.13719).
    """

    def __init__(self, num_ops: int = 2, factor: float = 0.3) -> None:
        is_share = isinstance(factor, Real) and 0 <= factor <= 1
        if not is_share:
            raise ValueError(f"`factor` must be a number from 0 to 1. Received: factor={factor!r}")
        self.num_ops, self.factor = check_integer("num_ops", num_ops), factor

    def __call__(self, images: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Return uint8 images `(batch, height, width, channels)` from gray or RGB ones, 0–255."""
        if images.dtype != np.uint8:
            images = np.clip(np.rint(images), 0, 255).astype("uint8")
        kinds = rng.integers(len(KINDS), size=(len(images), self.num_ops))
        amounts = self.factor * rng.choice((-1.0, 1.0), size=kinds.shape)
        changes = zip(images, kinds, amounts, strict=True)
        return np.array([_changed(*each) for each in changes], "uint8").reshape(images.shape)


def _changed(image, kinds, amounts):
    gray = image.shape[-1] == 1
    picture = Image.fromarray(image[..., 0] if gray else image)
    for kind, amount in zip(kinds, amounts, strict=True):
        picture = OPERATIONS[kind](picture, float(amount))
    return np.asarray(picture).reshape(image.shape)


def _enhanced(enhancer):
    return lambda picture, amount: enhancer(picture).enhance(1 + BLEND * amount)


def _mapped(picture, across=(1, 0, 0), down=(0, 1, 0)):
    """Fill the pixel at (x, y) from the center with the one at `(across, down) @ (x, y, 1)`."""
    x, y = picture.width / 2, picture.height / 2
    rows = [(a, b, c + middle - a * x - b * y) for (a, b, c), middle in ((across, x), (down, y))]
    return picture.transform(
        picture.size, Image.Transform.AFFINE, (*rows[0], *rows[1]), Image.Resampling.BILINEAR,
        fillcolor=FILL if picture.mode == "L" else (FILL,) * 3,
    )  # fmt: skip


def _rotated(picture, amount):
    cos, sin = math.cos(ROTATE * amount), math.sin(ROTATE * amount)
    return _mapped(picture, (cos, -sin, 0), (sin, cos, 0))


# Functions of a picture and a strength from -1 to 1.
KINDS: dict[str, Callable[[Image.Image, float], Image.Image]] = {
    "identity": lambda picture, _: picture,
    "auto_contrast": lambda picture, _: ImageOps.autocontrast(picture),
    "equalize": lambda picture, _: ImageOps.equalize(picture),
    "solarize": lambda picture, a: ImageOps.solarize(picture, round(256 * (1 - abs(a)))),
    "posterize": lambda picture, a: ImageOps.posterize(picture, 8 - round(POSTERIZE * abs(a))),
    "color": _enhanced(ImageEnhance.Color),
    "contrast": _enhanced(ImageEnhance.Contrast),
    "brightness": _enhanced(ImageEnhance.Brightness),
    "sharpness": _enhanced(ImageEnhance.Sharpness),
    "rotate": _rotated,
    "shear_x": lambda picture, a: _mapped(picture, across=(1, SHEAR * a, 0)),
    "shear_y": lambda picture, a: _mapped(picture, down=(SHEAR * a, 1, 0)),
    "translate_x": lambda picture, a: _mapped(picture, (1, 0, TRANSLATE * a * picture.width)),
    "translate_y": lambda picture, a: _mapped(picture, down=(0, 1, TRANSLATE * a * picture.height)),
}
OPERATIONS = tuple(KINDS.values())
