"""Base class of models that classify images."""

from typing import Any

import numpy as np

from keras_permix.layers.embedding.images import RANGE, ImagePreprocessor
from keras_permix.utils.checks import check_floats, check_integer
from keras_permix.zoo.classifier import Classifier


class ImageClassifier(Classifier):
    """Classify square images, which the layer "preprocessor" resizes and normalizes.

    Its constructor takes `image_size`, `channels`, `mean` and `std`.
    """

    default_classes = 10

    @classmethod
    def input_kind(cls, config: dict[str, Any]) -> str:
        return "image"

    def make_inputs(self, seed: int, batch: int) -> Any:
        return make_images(self, seed, batch)

    def describe_input(self) -> dict[str, Any]:
        return describe_images(self)


def make_images(model, seed, batch):
    """Random images of the size that a model's preprocessor makes them."""
    size = model.preprocessor.image_size
    shape = (batch, size, size, model.input_shape[-1])
    return np.random.default_rng(seed).integers(0, 256, shape, dtype="uint8")


def describe_images(model):
    """What a preset says of the images that a model takes."""
    preprocessor = model.preprocessor
    return {
        "size": preprocessor.image_size, "mean": preprocessor.mean, "std": preprocessor.std,
        "range": list(RANGE),
    }  # fmt: skip


def preprocess(images: Any, config: dict, dtype: Any, align_corners: bool = False) -> Any:
    """The images of a model's input, of its size and normalized."""
    size, mean, std = (config[key] for key in ("image_size", "mean", "std"))
    layer = ImagePreprocessor(size, mean, std, align_corners, dtype=dtype, name="preprocessor")
    return layer(images)


def check_std(std, channels):
    """Return one positive float per channel."""
    floats = check_floats("std", std, channels, "channel")
    if min(floats) <= 0:
        raise ValueError(f"`std` must hold positive numbers. Received: std={floats!r}")
    return floats


def grid_sides(model, source):
    """The sides of two models' grids of patches, or pixels.

    Args:
        model: A model, with `patch_size` or without.
        source: Another of its class, whose weights it is to have.

    Returns:
        `(old, new)`: the sides of `source` and of `model`.
    """
    configs = [one.get_config() for one in (source, model)]
    old, new = (config["image_size"] // config.get("patch_size", 1) for config in configs)
    return old, new


def check_patches(config, *sizes):
    """Check that `patch_size` divides the `sizes`, keys of a configuration."""
    for key in sizes:
        size, patch = check_integer(key, config[key]), config["patch_size"]
        if size % patch:
            raise ValueError(
                f"`patch_size` must divide `{key}`. Received: {key}={size}, patch_size={patch}"
            )
