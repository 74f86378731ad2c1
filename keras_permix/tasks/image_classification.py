"""Which of several classes an image is of."""

from pathlib import Path

import keras
import numpy as np

from keras_permix import data
from keras_permix.data.images.pillow import pillow_image
from keras_permix.tasks.classification import Classification


class ImageClassification(Classification):
    """Images of 0–255 `(batch, height, width, channels)` to logits.

    A model's configuration says `image_size`, `channels` and `num_classes`.
    """

    name = "image_classification"

    def load(self, spec, data_dir=None, seed=0):
        spec = dict(spec)
        name = spec.pop("name")
        if spec.pop("source", None) == "tfds":
            return data.tfds_images(name, self.config["image_size"], data_dir, seed=seed, **spec)
        return data.load_images(name, data_dir=data_dir, **spec)

    def generate(self, count, seed=0):
        size = self.config["image_size"]
        shape = (size, size, self.config["channels"])
        return data.generated_images(shape, self.num_classes, count=count, seed=seed)

    def batches(self, part, *args, **kwargs):
        images, channels = part[0], self.config["channels"]
        if isinstance(images, np.ndarray) and images.shape[-1] != channels:
            raise ValueError(
                f"The model takes images of {channels} channels. "
                f"Received: images of shape {images.shape}"
            )
        return super().batches(part, *args, **kwargs)

    def augment(self, augmentation, seed):
        if augmentation:
            return data.make_augmentation(augmentation, seed, self.num_classes)

    def metrics(self):
        """Top-1 accuracy, and top-5 where there are more than five classes."""
        top1 = keras.metrics.CategoricalAccuracy(name="top1")
        if self.num_classes <= 5:
            return [top1]
        return [top1, keras.metrics.TopKCategoricalAccuracy(5, name="top5")]

    def read(self, arguments):
        return read_image(Path(arguments[0]), self.config["channels"])[None]


def read_image(path, channels):
    """Read an image file as a uint8 array `(height, width, channels)`.

    Raises:
        ImportError: if Pillow is not installed.
        ValueError: if the file is not there or is no image, or channels are not 1 or 3.
    """
    if channels not in (1, 3):
        raise ValueError(f"Image files have 1 or 3 channels. Received: a model for {channels}")
    image = pillow_image()
    try:
        with image.open(path) as file:
            pixels = np.asarray(file.convert("L" if channels == 1 else "RGB"))
    except OSError as error:
        raise ValueError(
            f"`INPUT` must be an image file that Pillow can read. Received: {path} ({error})"
        ) from error
    return pixels.reshape(*pixels.shape[:2], channels)
