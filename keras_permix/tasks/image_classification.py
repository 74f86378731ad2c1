"""Which of several classes an image is of."""

import keras
import numpy as np

from keras_permix import data
from keras_permix.ops.dispatch.checks import check_choice
from keras_permix.tasks.classification import Classification

SOURCES = ("csv", "folder", "tfds")


class ImageClassification(Classification):
    """Images of 0–255 `(batch, height, width, channels)` to logits.

    A model's configuration says `image_size` and `num_classes`, its input the channels.
    """

    name = "image_classification"

    @property
    def channels(self):
        return self.model.input_shape[-1]

    def load(self, spec, data_dir=None, seed=0):
        """Load a data set.

        Args:
            spec: A dict of the set's "name" and, where it is none that `load_images` knows, its
                "source": "folder", "csv" or "tfds". The rest goes to `folder_images`,
                `listed_images` or `tfds_images` of `keras_permix.data`.
            data_dir: Folder of the files, or `None`.
            seed: Integer ≥ 0, of random crops.

        Returns:
            A `keras_permix.data.Dataset`.
        """
        spec = dict(spec)
        name, source = spec.pop("name"), spec.pop("source", None)
        if source is None:
            return data.load_images(name, data_dir=data_dir, **spec)
        size = self.config["image_size"]
        if check_choice("source", source, SOURCES) == "tfds":
            return data.tfds_images(name, size, data_dir, seed=seed, **spec)
        load = data.folder_images if source == "folder" else data.listed_images
        return load(name, size, data_dir, channels=self.channels, seed=seed, **spec)

    def generate(self, count, seed=0):
        size = self.config["image_size"]
        shape = (size, size, self.channels)
        return data.generated_images(shape, self.num_classes, count=count, seed=seed)

    def batches(self, part, *args, **kwargs):
        images, channels = part[0], self.channels
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
        try:
            return data.read_image(arguments[0], self.channels)[None]
        except (OSError, ValueError) as error:
            raise ValueError(f"`INPUT` must be an image. {error}") from error
