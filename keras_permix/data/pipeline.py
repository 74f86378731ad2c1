"""Batches of images for `fit`, the same for the same seed, epoch and position."""

import keras
import numpy as np

from keras_permix.data.images.records import RecordSource


class ImagePipeline(keras.utils.PyDataset):
    """Batches of images and labels, shuffled and augmented anew each epoch.

    Order and augmentation depend on nothing but seed, epoch and index of the batch: a run resumed
    with `epoch=k` sees the batches it would have seen, on every backend and with any number of
    workers. `epoch` counts up whenever Keras ends an epoch. Keras also does so once before the
    first epoch of a `fit`, which thus sees the batches of `epoch + 1`: a resumed one alike.

    Args:
        images: array `(images, height, width, channels)`, or anything with `len` and `[index]`
            that gives arrays `(height, width, channels)` of one shape, or a `RecordSource`.
        labels: int array `(images,)`; None with a `RecordSource`, which has its own.
        batch_size: images in a batch.
        num_classes: number of classes.
        shuffle: whether to draw a new order each epoch.
        seed: int ≥ 0, of the order.
        augment: None, or a function `(images, labels, epoch, index) -> (images, labels)` of a
            batch and its place, such as `make_augmentation` gives.
        drop_remainder: whether to leave out a last batch that is not full.
        epoch: the epoch to start with.
        **kwargs: `workers`, `use_multiprocessing`, `max_queue_size` of `keras.utils.PyDataset`.

    Returns:
        Each item is `(images, labels)`: images as they came, or float32 after an augmentation
        that blends them; labels int32 `(batch,)`, or float32 `(batch, num_classes)` where the
        augmentation mixes them.

    Raises:
        ValueError: if sizes do not fit, or an argument is out of range.

    Example:

        >>> x, y = np.zeros((100, 32, 32, 3), "uint8"), np.zeros(100, "int32")
        >>> images, labels = ImagePipeline(x, y, batch_size=32, num_classes=10)[0]
        >>> images.shape
        (32, 32, 32, 3)
    """

    def __init__(
        self, images, labels, *, batch_size, num_classes, shuffle=False, seed=0, augment=None,
        drop_remainder=False, epoch=0, **kwargs,
    ):  # fmt: skip
        super().__init__(**kwargs)
        _check_sizes(images, batch_size, drop_remainder)
        if not isinstance(images, RecordSource):
            labels = np.asarray(labels, "int32").reshape(-1)
            _check_labels(images, labels, num_classes)
        if seed < 0 or epoch < 0:
            raise ValueError(
                f"`seed` and `epoch` must be 0 or more. Received: seed={seed}, epoch={epoch}"
            )
        self.images, self.labels = images, labels
        self.batch_size, self.num_classes = batch_size, num_classes
        self.shuffle, self.seed = shuffle, seed
        self.augment = augment
        self.drop_remainder = drop_remainder
        self.epoch = epoch

    @property
    def epoch(self):
        """The epoch whose batches `self[index]` gives."""
        return self._epoch

    @epoch.setter
    def epoch(self, epoch):
        self._epoch = epoch
        count = len(self.images)
        rng = np.random.default_rng((self.seed, epoch))
        self._order = rng.permutation(count) if self.shuffle else np.arange(count)

    def on_epoch_end(self):
        self.epoch += 1

    def __len__(self):
        full, rest = divmod(len(self.images), self.batch_size)
        return full + (rest > 0 and not self.drop_remainder)

    def __getitem__(self, index):
        start = index * self.batch_size
        chosen = self._order[start : start + self.batch_size]
        images, labels = self._read(chosen, index)
        if self.augment is None:
            return images, labels
        return self.augment(images, labels, self.epoch, index)

    def _read(self, chosen, index):
        if isinstance(self.images, RecordSource):
            return self.images.read(chosen, self.epoch, index)
        if isinstance(self.images, np.ndarray):
            return self.images[chosen], self.labels[chosen]
        return np.stack([self.images[int(i)] for i in chosen]), self.labels[chosen]


def _check_sizes(images, batch_size, drop_remainder):
    least = batch_size if drop_remainder else 1
    if batch_size < 1 or len(images) < least:
        raise ValueError(
            "`batch_size` must be 1 or more, and `images` must fill at least one batch. "
            f"Received: batch_size={batch_size}, {len(images)} images, "
            f"drop_remainder={drop_remainder}"
        )


def _check_labels(images, labels, num_classes):
    if len(images) != len(labels):
        raise ValueError(
            "`images` and `labels` must be of one length. "
            f"Received: {len(images)} images, {len(labels)} labels"
        )
    if labels.min() < 0 or labels.max() >= num_classes:
        raise ValueError(
            "`labels` must be from 0 to `num_classes - 1`. "
            f"Received: labels from {labels.min()} to {labels.max()}, num_classes={num_classes}"
        )
