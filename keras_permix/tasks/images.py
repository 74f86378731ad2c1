"""Define the base class of tasks that read images."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import keras

from keras_permix import data
from keras_permix._typing import StrPath
from keras_permix.data.pipeline import Augment
from keras_permix.recipes.images import IMAGE_SOURCES, images_to_score, is_images
from keras_permix.tasks.task import Task, options_of, read_alike
from keras_permix.utils.checks import check_choice, check_names

SOURCES = (*IMAGE_SOURCES, "tfds")
READING = ("random_crop", "keep", "skip_unreadable")  # keys of `data` for folders and lists


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
            raise ValueError(f"`data.source` must be 'csv' for {cls.name}. Received: data={spec}")
        load, own, more = _loader(spec["name"], spec.get("source"))
        check_names("`data`", spec, {"name", "source", *options_of(load, own), *more})

    @classmethod
    def data_at(cls, path: Path, options: dict[str, Any]) -> dict[str, Any] | None:
        if not is_images(path):
            return super().data_at(path, options)
        found = images_to_score(path)
        # The classes of a folder have its names, which `check_labels` compares with the model's.
        return found if path.is_dir() else {**found, **read_alike(options)}

    def load(
        self, spec: dict[str, Any], data_dir: StrPath | None = None, seed: int = 0
    ) -> data.Dataset:
        """Load a data set.

        `spec` has the "name" of a set that `load_images` reads, or a "source": "folder", "csv" or
        "tfds". Other keys are arguments of `folder_images`, `listed_images` or `tfds_images` in
        `keras_permix.data`. `load_pixels` reads "cifar10_gray". "pathfinder" has the sources
        "generated" (default) and "files", with the arguments of `generated_pathfinder` or
        `load_pathfinder`. `seed` selects the random crops.
        """
        load, own, _ = _loader(spec["name"], spec.get("source"))
        given = {"image_size": self.config["image_size"], "data_dir": data_dir, "seed": seed}
        given |= {"channels": self.channels, "predicts": self.predicts, "name": spec["name"]}
        given["order"] = self.model.labels
        options = {key: value for key, value in spec.items() if key not in ("name", "source")}
        return load(**{key: given[key] for key in own}, **options)

    def generate(self, count: int, seed: int = 0) -> data.Dataset:
        size, outputs = self.config["image_size"], self.model.output_shape[-1]
        shape = (size, size, self.channels)
        images = data.generated_images(shape, outputs, count=count, seed=seed)
        return self.of_classes(images)

    def augment(self, augmentation: dict[str, Any] | None, seed: int) -> Augment | None:
        mixes = augmentation and (augmentation.get("mixup") or augmentation.get("cutmix"))
        if self.num_classes is None and mixes:
            raise ValueError(f"`mixup` and `cutmix` require classes. Received: {augmentation=}")
        if augmentation:
            return data.Augmentation(augmentation, seed, self.num_classes or 0)
        return None

    def metrics(self) -> list[Any]:
        """Make the metrics. Classes have top-1 accuracy and, if more than five, top-5 accuracy."""
        if self.num_classes is None:
            return super().metrics()  # type: ignore[safe-super]
        top1 = keras.metrics.CategoricalAccuracy(name="top1")
        if self.num_classes <= 5:
            return [top1]
        return [top1, keras.metrics.TopKCategoricalAccuracy(5, name="top5")]

    def read(self, arguments: Sequence[str]) -> Any:
        try:
            return [data.read_image(arguments[0], self.channels)]
        except (OSError, ValueError) as error:
            raise ValueError(f"`INPUT` must be an image. {error}") from error


def _loader(name, source):
    """Return the loader of a set, arguments that the task sets, and additional keys of `data`."""
    if name == "pathfinder" and source in (None, "generated"):
        return data.generated_pathfinder, ("image_size",), ()
    if name == "pathfinder" and source == "files":
        return data.load_pathfinder, ("image_size", "data_dir"), ()
    if name == "cifar10_gray" and source is None:
        return data.load_pixels, ("data_dir",), ()
    if source is None:
        return data.load_images, ("name", "data_dir"), ()
    check_choice("data.source", source, SOURCES)
    own = ("name", "image_size", "data_dir", "seed")
    if source == "tfds":
        return data.tfds_images, own, ()
    if source == "folder":
        return data.folder_images, (*own, "channels", "order"), READING
    return data.listed_images, (*own, "channels", "order", "predicts"), READING
