"""Classify images, assign several labels to them, or predict numbers from them."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import keras
import numpy as np

from keras_permix import data
from keras_permix._typing import StrPath
from keras_permix.data.images.sets import SETS as IMAGE_SETS
from keras_permix.data.pipeline import Augment
from keras_permix.recipes.images import IMAGE_SOURCES, images_to_score, is_images
from keras_permix.tasks.classification import Classification, MultiLabel
from keras_permix.tasks.regression import Regression
from keras_permix.tasks.task import Task, check_options, check_set, read_alike
from keras_permix.utils.checks import check_choice

SOURCES = (*IMAGE_SOURCES, "tfds")
PATHFINDER = {"generated": data.generated_pathfinder, "files": data.load_pathfinder}
# source -> its loader, and additional keys of `data`
LOADERS: dict[str | None, tuple[Callable[..., data.Dataset], tuple[str, ...]]] = {
    None: (data.load_images, ("source",)),
    "csv": (data.listed_images, ("source", "random_crop", "keep", "skip_unreadable")),
    "folder": (data.folder_images, ("source", "random_crop", "keep", "skip_unreadable")),
    "tfds": (data.tfds_images, ("source",)),
}


class ImageTask(Task):
    """Read images of shape `(batch, height, width, channels)` with values from 0 to 255.

    The configuration of the model defines `image_size`.
    """

    own_sources = IMAGE_SOURCES

    @property
    def channels(self) -> int:
        """Number of channels of the model's input."""
        return self.model.input_shape[-1]

    @classmethod
    def check_data(cls, spec: dict[str, Any]) -> None:
        if cls.predicts != "class" and spec.get("source") != "csv":
            raise ValueError(
                "Several labels per image, and numbers, require a list of images: "
                f'`source = "csv"`. Received: data={spec} for {cls.name}'
            )
        if load := _of_the_arena(spec):
            check_options(spec, load, "source", given=())
            return
        check_set(spec, IMAGE_SETS, ("source",), f"set `source` to one of {', '.join(SOURCES)}")
        if "source" in spec:
            check_choice("data.source", spec["source"], SOURCES)
        load, more = LOADERS[spec.get("source")]
        check_options(spec, load, *more)

    @classmethod
    def data_at(cls, path: Path, options: dict[str, Any]) -> dict[str, Any] | None:
        if not is_images(path):
            return super().data_at(path, options)
        return {**images_to_score(path), **read_alike(options)}

    def load(
        self, spec: dict[str, Any], data_dir: StrPath | None = None, seed: int = 0
    ) -> data.Dataset:
        """Load a data set.

        Args:
            spec: Dict with the "name" of a set that `load_images` reads, or with a "source":
                "folder", "csv" or "tfds". Other keys are arguments of `folder_images`,
                `listed_images` or `tfds_images` in `keras_permix.data`. `load_pixels` reads
                "cifar10_gray". "pathfinder" has the sources "generated" (default) and "files",
                with the arguments of `generated_pathfinder` or `load_pathfinder`.
            data_dir: Folder of the files. Defaults to `None`, the folder of downloads.
            seed: Integer ≥ 0 for random crops. Defaults to 0.

        Returns:
            A `keras_permix.data.Dataset`.
        """
        arena, size = _of_the_arena(spec), self.config["image_size"]
        spec = dict(spec)
        name, source = spec.pop("name"), spec.pop("source", None)
        if arena is data.generated_pathfinder:
            return arena(size, **spec)
        if arena is data.load_pathfinder:
            return arena(size, data_dir, **spec)
        if arena is data.load_pixels:
            return arena(data_dir, **spec)
        if source is None:
            return data.load_images(name, data_dir=data_dir, **spec)
        if source == "tfds":
            return data.tfds_images(name, size, data_dir, seed=seed, **spec)
        how = {"channels": self.channels, "seed": seed, **spec}
        if source == "folder":
            return data.folder_images(name, size, data_dir, **how)
        return data.listed_images(name, size, data_dir, predicts=self.predicts, **how)

    def generate(self, count: int, seed: int = 0) -> data.Dataset:
        size, outputs = self.config["image_size"], self.model.output_shape[-1]
        shape = (size, size, self.channels)
        images = data.generated_images(shape, outputs, count=count, seed=seed)
        return self.of_classes(images)

    def batches(self, part: tuple[Any, Any], *args: Any, **kwargs: Any) -> data.Pipeline:
        images, channels = part[0], self.channels
        if isinstance(images, np.ndarray) and images.shape[-1] != channels:
            raise ValueError(
                f"The model expects images of {channels} channels. "
                f"Received: images of shape {images.shape}"
            )
        return super().batches(part, *args, **kwargs)

    def augment(self, augmentation: dict[str, Any] | None, seed: int) -> Augment | None:
        mixed = sorted({"mixup", "cutmix"} & set(augmentation or ()))
        if self.num_classes is None and mixed:
            raise ValueError(
                f"`augmentation` must not mix images for {self.name}, which has no classes. "
                f"Received: {mixed}"
            )
        if augmentation:
            return data.make_augmentation(augmentation, seed, self.num_classes or 0)
        return None

    def read(self, arguments: Sequence[str]) -> Any:
        try:
            return [data.read_image(arguments[0], self.channels)]
        except (OSError, ValueError) as error:
            raise ValueError(f"`INPUT` must be an image. {error}") from error


class ImageClassification(ImageTask, Classification):
    """Classify images of shape `(batch, height, width, channels)` with values from 0 to 255.

    The configuration of the model defines `image_size` and `num_classes`.

    Args:
        model: A `ZooModel` that outputs logits.

    Example:

    >>> import numpy as np
    >>> from keras_permix.tasks import ImageClassification
    >>> from keras_permix.zoo import CSPViT
    >>> task = ImageClassification(CSPViT.from_preset("test"))
    >>> task.answer(np.array([0.0, 9.0, -9.0], "float32"), top=2)
    [' 99.99 %  green', '  0.01 %  red']
    """

    name = "image_classification"

    def metrics(self) -> list[Any]:
        """Make the metrics: top-1 accuracy, and top-5 accuracy with more than five classes."""
        top1 = keras.metrics.CategoricalAccuracy(name="top1")
        if self.num_classes <= 5:
            return [top1]
        return [top1, keras.metrics.TopKCategoricalAccuracy(5, name="top5")]


class MultiLabelImages(ImageTask, MultiLabel):
    """Assign any number of labels to images.

    Args:
        model: A `ZooModel` with `predicts="labels"`.

    Example:

    >>> import numpy as np
    >>> from keras_permix.tasks import MultiLabelImages
    >>> from keras_permix.zoo import CSPViT
    >>> task = MultiLabelImages(CSPViT.from_preset("test", predicts="labels", labels=["a", "b"]))
    >>> task.answer(np.array([0.0, 2.0], "float32"), top=2)
    [' 88.08 %  b', ' 50.00 %  a']
    """

    name = "multilabel_image_classification"


class ImageRegression(ImageTask, Regression):
    """Predict numbers from images.

    Args:
        model: A `ZooModel` with `predicts="values"`.

    Example:

    >>> import numpy as np
    >>> from keras_permix.tasks import ImageRegression
    >>> from keras_permix.zoo import CSPViT
    >>> task = ImageRegression(CSPViT.from_preset("test", predicts="values", labels=["age"]))
    >>> task.answer(np.array([41.5], "float32"), top=1)
    ['41.5  age']
    """

    name = "image_regression"


def _of_the_arena(spec):
    """Return the loader of an image set of the Long Range Arena, or `None` for other sets."""
    name, source = spec["name"], spec.get("source")
    if name == "pathfinder" and source in (None, *PATHFINDER):
        return PATHFINDER[source or "generated"]
    return data.load_pixels if name == "cifar10_gray" and source is None else None
