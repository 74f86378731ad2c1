"""Read labeled images batch by batch, and crop and resize them."""

import dataclasses
import math
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np
from PIL import Image

from keras_permix.data.dataset import Source, as_targets
from keras_permix.data.images.decode import read_image

# Separates the random numbers of crops from those of order and augmentation, for the same seed.
STREAM = 2
ATTEMPTS = 10  # to draw a rectangle that fits
Transform: TypeAlias = Callable[[np.ndarray, np.random.Generator], np.ndarray]


class RecordSource(Source):
    """Read labeled images batch by batch, for `Pipeline`.

    Args:
        records: Sequence of dicts with `"image"`, a uint8 array `(height, width, channels)`, and
            `"label"`, an int or a tuple of floats. It may list them in an attribute `labels`.
        transform: Function `(image, rng) -> image` that resizes an image to the size of the batch,
            such as `ResizeCrop`. Default: `None`.
        seed: Int ≥ 0, seed of the random numbers for `transform`. Default: 0.

    Example:
        >>> from keras_permix.data import ResizeCrop
        >>> records = [{"image": np.zeros((40, 30, 3), "uint8"), "label": 0}]
        >>> images, labels = RecordSource(records, ResizeCrop(24)).read([0])
        >>> images.shape, labels.shape
        ((1, 24, 24, 3), (1,))
    """

    labels: tuple[str, ...]  # names of the classes, if known

    def __init__(self, records: Any, transform: Transform | None = None, seed: int = 0) -> None:
        super().__init__(len(records), getattr(records, "labels", None))
        self.records, self.transform, self.seed = records, transform, seed

    def read(
        self, indices: Sequence[int] | np.ndarray, epoch: int = 0, index: int = 0
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return `(images, labels)`; epoch and index of the batch determine the random crops.

        Images are uint8 `(batch, height, width, channels)`; labels are int32 `(batch,)` or float32
        `(batch, targets)`.
        """
        rng = np.random.default_rng((self.seed, epoch, index, STREAM))
        records = [self.records[int(i)] for i in self.chosen[indices]]
        images = [record["image"] for record in records]
        if self.transform is not None:
            images = [self.transform(image, rng) for image in images]
        return np.stack(images), as_targets([record["label"] for record in records])


class FileRecords:
    """Hold image files and labels as records for `RecordSource`."""

    def __init__(self, files, channels):
        self.files, self.channels = files, channels
        self.labels = [label for _, label in files]

    def __len__(self):
        return len(self.files)

    def __getitem__(self, index):
        path, label = self.files[index]
        return {"image": read_image(path, self.channels), "label": label}


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

    Raises:
        ValueError: If `keep` is out of range.

    Example:
        >>> import numpy as np
        >>> from keras_permix.data import ResizeCrop
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

        `rng` is a `numpy.random.Generator`; random crops require it.
        """
        height, width, channels = image.shape
        side = self.keep * min(height, width)
        left, top = (width - side) / 2, (height - side) / 2
        box = (left, top, left + side, top + side)
        if self.random:
            box = self._random_box(height, width, rng) or box
        picture = Image.fromarray(image[..., 0] if channels == 1 else image)
        picture = picture.resize((self.size, self.size), Image.Resampling.BICUBIC, box=box)
        return np.asarray(picture).reshape(self.size, self.size, channels)

    def _random_box(self, height, width, rng):
        """Return a rectangle inside the image, or `None` if no attempt fits."""
        for _ in range(ATTEMPTS):
            area = rng.uniform(*self.area) * height * width
            aspect = math.exp(rng.uniform(*np.log(self.aspect)))
            box_width, box_height = math.sqrt(area * aspect), math.sqrt(area / aspect)
            if box_width <= width and box_height <= height:
                left = rng.uniform(0, width - box_width)
                top = rng.uniform(0, height - box_height)
                return left, top, left + box_width, top + box_height
        return None
