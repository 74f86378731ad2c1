"""Read labeled images batch by batch."""

import copy
from collections.abc import Callable, Sequence
from typing import Any, Self, TypeAlias

import numpy as np

from keras_permix.data.targets import as_targets

# Separates the random numbers of crops from those of order and augmentation, for the same seed.
STREAM = 2
Transform: TypeAlias = Callable[[np.ndarray, np.random.Generator], np.ndarray]


class RecordSource:
    """Read labeled images batch by batch, for `Pipeline`.

    `source[start:stop]` and `source[indices]` return a source with some of the records.

    Args:
        records: Sequence of dicts with `"image"`, a uint8 array `(height, width, channels)`, and
            `"label"`, an int, or a tuple of floats.
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

    def __init__(
        self,
        records: Any,
        transform: Transform | None = None,
        seed: int = 0,
    ) -> None:
        self.records, self.transform, self.seed = records, transform, seed
        self.chosen = np.arange(len(records))

    def __len__(self) -> int:
        return len(self.chosen)

    def __getitem__(self, part: slice | np.ndarray) -> Self:
        if not isinstance(part, slice | np.ndarray):
            raise TypeError(
                "A source is cut by a slice or an array of indices, and read by `read`. "
                f"Received: source[{part!r}]"
            )
        some = copy.copy(self)
        some.chosen = self.chosen[part]
        return some

    def known_labels(self) -> np.ndarray | None:
        """Return the labels if the records have an attribute `labels`, else `None`."""
        labels = getattr(self.records, "labels", None)
        return None if labels is None else np.asarray(labels)[self.chosen]

    def read(
        self, indices: Sequence[int] | np.ndarray, epoch: int = 0, index: int = 0
    ) -> tuple[np.ndarray, np.ndarray]:
        """Read records as one batch.

        Args:
            indices: Indices of the records, ints from 0.
            epoch: Int ≥ 0.
            index: Int ≥ 0, index of the batch. Epoch and index determine the random crops.

        Returns:
            `(images, labels)`: uint8 `(batch, height, width, channels)`, int32 `(batch,)` or
            float32 `(batch, targets)`.
        """
        rng = np.random.default_rng((self.seed, epoch, index, STREAM))
        records = [self.records[int(self.chosen[int(i)])] for i in indices]
        images = [record["image"] for record in records]
        if self.transform is not None:
            images = [self.transform(image, rng) for image in images]
        return np.stack(images), as_targets([record["label"] for record in records])
