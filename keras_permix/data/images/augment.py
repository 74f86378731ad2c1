"""Augment batches of images as a recipe describes.

Crop, flip and mixing use NumPy, RandAugment uses Pillow, and other steps are Keras layers.
"""

from typing import Any

import keras
import numpy as np

from keras_permix.data.images.rand_augment import RandAugment
from keras_permix.ops.backend import running
from keras_permix.utils.checks import (
    check_choice,
    check_integer,
    check_names,
    check_positive,
    import_extra,
)

# Separates the random numbers of augmentation from those of the order, for the same seed.
STREAM = 1
ENTRIES = ("crop_padding", "flip", "randaugment", "layers", "erasing", "mixup", "cutmix")


class Augmentation:
    """Augment the batches of a `Pipeline` by the entries of a recipe.

    Entries that are missing, 0, False or None are skipped. The others apply in this order:

    - `crop_padding`: zero pixels added on each side before a random crop;
    - `flip`: whether to flip half of the images left to right;
    - `randaugment`: dict of `num_ops` and `factor`, see `RandAugment`;
    - `layers`: list of Keras layers, dicts of `class_name` or `registered_name`, and `config`.
      They transform images, not labels. Each batch sets their seeds; layers of keras-cv also
      draw from the global generator of TensorFlow;
    - `erasing`: probability of filling a random rectangle with noise;
    - `mixup`, `cutmix`: alpha of the beta distribution of the mixing weight. With both, each batch
      uses one of them, chosen at random.

    The result depends only on the batch, the seed, the epoch and the batch index; with `layers` or
    `erasing`, also on the backend.

    Args:
        spec: Dict of entries.
        seed: Int ≥ 0.
        num_classes: Int, number of classes, for mixed labels.

    Raises:
        ValueError: If a name is unknown, or a value is out of range.
        TypeError: If the arguments of RandAugment or a layer are invalid.
        ImportError: If a layer of keras-cv is named and keras-cv is not installed.

    Example:
        >>> import numpy as np
        >>> from keras_permix.data import Augmentation
        >>> spec = dict(crop_padding=4, flip=True, mixup=0.2)
        >>> spec["layers"] = [{"class_name": "RandomBrightness", "config": {"factor": 0.2}}]
        >>> augment = Augmentation(spec, seed=0, num_classes=10)
        >>> images, labels = augment(np.zeros((8, 32, 32, 3), "uint8"), np.arange(8), 0, 0)
        >>> labels.shape
        (8, 10)

    Reference: [RandAugment](https://arxiv.org/abs/1909.13719),
    [random erasing](https://arxiv.org/abs/1708.04896), [mixup](https://arxiv.org/abs/1710.09412),
    [CutMix](https://arxiv.org/abs/1905.04899).
    """

    def __init__(self, spec: dict[str, Any], seed: int, num_classes: int) -> None:
        check_names("`augmentation`", spec, ENTRIES)
        spec = {key: value for key, value in spec.items() if value is not None and value != 0}
        self.seed, self.num_classes = seed, num_classes
        self.crop_padding = check_integer("crop_padding", spec.get("crop_padding", 0), least=0)
        self.flip = check_choice("flip", spec.get("flip", False), (True, False))
        if not isinstance(drawn := spec.get("randaugment", {}), dict):
            rule = "`randaugment` must be a table of `num_ops` and `factor`."
            raise ValueError(f"{rule} Received: randaugment={drawn!r}")
        self.rand_augment = RandAugment(**drawn) if "randaugment" in spec else None
        self.layers = list(map(_make_layer, spec.get("layers", ())))
        if "erasing" in spec:
            # Keras draws the probability between two numbers, here equal.
            share = spec["erasing"]
            if isinstance(share, bool) or not isinstance(share, int | float) or not 0 < share <= 1:
                raise ValueError(f"`erasing` must be in [0, 1]. Received: erasing={share!r}")
            erasing = {"factor": (share, share)}
            self.layers.append(_make_layer({"class_name": "RandomErasing", "config": erasing}))
        kinds = [key for key in ("mixup", "cutmix") if key in spec]
        self.mixing = [(key, check_positive(key, spec[key])) for key in kinds]

    def __call__(
        self, images: np.ndarray, labels: np.ndarray, epoch: int, index: int
    ) -> tuple[np.ndarray, np.ndarray]:
        """Augment batch `index` of an epoch.

        Args:
            images: Array of uint8 or floats `(batch, height, width, channels)`, levels 0 to 255.
                RandAugment takes images with one channel or three, and rounds floats.
            labels: Int array `(batch,)`.
            epoch, index: Int ≥ 0.

        Returns:
            `(images, labels)`. Images keep their dtype after crop and flip, are uint8 after
            RandAugment and float32 after the others. Labels that were mixed are float32
            `(batch, num_classes)`, and each row sums to one.
        """
        rng = np.random.default_rng((self.seed, epoch, index, STREAM))
        if self.crop_padding:
            images = random_crop(images, rng, self.crop_padding)
        if self.flip:
            images = random_flip(images, rng)
        if self.rand_augment:
            images = self.rand_augment(images, rng)
        if self.layers:
            seeds = rng.integers(2**31, size=len(self.layers))
            images = _apply_layers(self.layers, images, seeds.tolist())
        if self.mixing:
            kind, alpha = self.mixing[rng.integers(len(self.mixing))]
            targets = np.eye(self.num_classes, dtype="float32")[labels]
            return mix_images(images, targets, rng, alpha, cut=kind == "cutmix")
        return images, labels


def _make_layer(spec):
    """Check the name and the configuration of a Keras layer, and return it serialized by Keras."""
    if not isinstance(spec, dict):
        raise ValueError(f"`layers` must be a list of dicts. Received: {spec!r}")
    check_names("`layers`", spec, ("class_name", "registered_name", "config"))
    name = spec.get("registered_name") or spec.get("class_name", "")
    if name.startswith("keras_cv>"):
        import_extra("keras_cv", "cv", f"`{name}` on TensorFlow")  # It registers its layers.
    cls = keras.saving.get_registered_object(name) or getattr(keras.layers, name, None)
    mixes = (keras.layers.MixUp, keras.layers.CutMix)
    if not isinstance(cls, type) or not issubclass(cls, keras.layers.Layer) or cls in mixes:
        raise ValueError(
            "`layers` must name Keras layers or registered layers that only transform images; "
            f"to mix images, set `mixup` or `cutmix`. Received: {spec}"
        )
    layer = cls.from_config({"dtype": "float32", **spec.get("config", {})})
    serialized = keras.saving.serialize_keras_object(layer)
    if hasattr(layer, "data_format"):
        serialized["config"]["data_format"] = "channels_last"
    return serialized


def _apply_layers(layers, images, seeds):
    """Apply serialized layers on the CPU of this process, each with a seed."""
    shared = keras.distribution.distribution()
    keras.distribution.set_distribution(None)
    try:
        with keras.device(running.cpu()):
            images = keras.ops.convert_to_tensor(images, "float32")
            for layer, seed in zip(layers, seeds, strict=True):
                # A new layer for each batch, because threads would share its random state.
                made = keras.saving.deserialize_keras_object(_with_seed(layer, seed))
                images = made(images, training=True)
            return keras.ops.convert_to_numpy(images)
    finally:
        keras.distribution.set_distribution(shared)


def _with_seed(config, seed):
    """Return a configuration with all seeds in it replaced, including those of nested objects."""
    if isinstance(config, dict):
        return {
            key: seed if key == "seed" else _with_seed(value, seed) for key, value in config.items()
        }
    return [_with_seed(one, seed) for one in config] if isinstance(config, list) else config


def random_crop(images, rng, padding):
    """Pad each side of images with zeros, and crop each image to its size at a random offset."""
    batch, *shape = images.shape
    sides = ((0, 0), (padding, padding), (padding, padding), (0, 0))
    windows = np.lib.stride_tricks.sliding_window_view(np.pad(images, sides), shape, axis=(1, 2, 3))
    top, left = rng.integers(0, 2 * padding, (2, batch), endpoint=True)
    return windows[np.arange(batch), top, left, 0]


def random_flip(images, rng):
    """Flip about half of the images left to right."""
    flipped = rng.random(len(images)) < 0.5
    images = images.copy()
    images[flipped] = images[flipped, :, ::-1]
    return images


def mix_images(images, targets, rng, alpha, cut):
    """Mix each image and its targets with those of another image of the batch.

    The weights have a beta distribution with the parameter `alpha`. `cut` pastes a rectangle
    (CutMix) instead of averaging (mixup). Images and targets become float32.
    """
    order, weights = rng.permutation(len(images)), rng.beta(alpha, alpha, len(images))
    images = images.astype("float32")
    if cut:
        sides = np.array(images.shape[1:3])
        sizes = np.rint(sides * np.sqrt(1 - weights)[:, None]).astype(int)
        low = rng.integers(0, sides, (len(images), 2)) - sizes // 2
        rows, columns = (
            (low[:, axis, None] <= np.arange(side))
            & (np.arange(side) < (low + sizes)[:, axis, None])
            for axis, side in enumerate(sides)
        )
        pasted = rows[:, :, None] & columns[:, None]
        images = np.where(pasted[..., None], images[order], images)
        weights = 1 - pasted.mean((1, 2))
    else:
        share = weights.astype("float32")[:, None, None, None]
        images = share * images + (1 - share) * images[order]
    share = weights.astype("float32")[:, None]
    return images, share * targets + (1 - share) * targets[order]
