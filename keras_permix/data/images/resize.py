"""Resize and crop images with Pillow."""

import dataclasses
import math

import numpy as np
from PIL import Image

ATTEMPTS = 10


@dataclasses.dataclass(frozen=True)
class ResizeCrop:
    """Crop an image and resize it to a square, with bicubic interpolation.

    For testing, the central square is cropped. For training (`random=True`), a rectangle of random
    area and aspect ratio is cropped.

    Args:
        size: Int, side of the result in pixels.
        random: Bool, whether to crop at random. Default: `False`.
        keep: Float, side of the central square relative to the shorter side. Default: 0.875.
        area: Tuple of the least and greatest share of the area of a random crop.
        aspect: Tuple of the least and greatest ratio of width to height of a random crop.

    Example:

    >>> crop = ResizeCrop(224, random=True)
    >>> crop(np.zeros((375, 500, 3), "uint8"), np.random.default_rng(0)).shape
    (224, 224, 3)

    Reference: [Szegedy et al., 2015](https://arxiv.org/abs/1409.4842) for the random rectangle.
    """

    size: int
    random: bool = False
    keep: float = 0.875
    area: tuple = (0.08, 1.0)
    aspect: tuple = (3 / 4, 4 / 3)

    def __post_init__(self) -> None:
        if not 0 < self.keep <= 1:
            raise ValueError(f"`keep` must be above 0, and at most 1. Received: keep={self.keep}")

    def __call__(self, image: np.ndarray, rng: np.random.Generator | None = None) -> np.ndarray:
        """Return a uint8 array `(size, size, channels)` from `(height, width, channels)`.

        `rng` is a `numpy.random.Generator`, needed where `random` is set.
        """
        height, width, channels = image.shape
        box = self._random_box(height, width, rng) if self.random else None
        box = self._middle_box(height, width) if box is None else box
        picture = Image.fromarray(image[..., 0] if channels == 1 else image)
        picture = picture.resize((self.size, self.size), Image.Resampling.BICUBIC, box=box)
        return np.asarray(picture).reshape(self.size, self.size, channels)

    def _middle_box(self, height, width):
        side = self.keep * min(height, width)
        left, top = (width - side) / 2, (height - side) / 2
        return left, top, left + side, top + side

    def _random_box(self, height, width, rng):
        """A rectangle that fits into the image, or None if none of a few drawn does."""
        for _ in range(ATTEMPTS):
            area = rng.uniform(*self.area) * height * width
            aspect = math.exp(rng.uniform(*np.log(self.aspect)))
            box_width, box_height = math.sqrt(area * aspect), math.sqrt(area / aspect)
            if box_width <= width and box_height <= height:
                left = rng.uniform(0, width - box_width)
                top = rng.uniform(0, height - box_height)
                return left, top, left + box_width, top + box_height
        return None
