"""Augment batches of images as a recipe describes.

Crop and flip use NumPy, RandAugment uses Pillow, mixing and erasing use Keras layers through
`get_random_transformation` and `transform_*`, with a seed per batch. Mixing weights are drawn in
NumPy, which is thread-safe: Keras' beta distribution sets the shared generator of PyTorch, and can
divide zero by zero on TensorFlow.
"""

import contextlib
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_permix.data.images.rand_augment import RandAugment
from keras_permix.ops.backend import running

# Separates the random numbers of augmentation from those of the order, for the same seed.
STREAM = 1

# Entry -> type, least and greatest value. Keras' `CutMix` supports an alpha of at most 1.
RULES = {
    "crop_padding": (int, 0, 1024),
    "flip": (bool, False, True),
    "randaugment": None,
    "erasing": (int | float, 0, 1),
    "mixup": (int | float, 0, 1),
    "cutmix": (int | float, 0, 1),
}


def make_augmentation(spec: dict[str, Any], seed: int, num_classes: int) -> "Augmentation":
    """Make an augmentation for `Pipeline` from the entries of a recipe.

    Entries that are missing, 0, False or None are skipped. The others apply in this order:

    - `crop_padding`: zero pixels added on each side before a random crop;
    - `flip`: whether to flip half of the images left to right;
    - `randaugment`: dict of `num_ops` and `factor`, see `RandAugment`;
    - `erasing`: probability of filling a random rectangle with noise;
    - `mixup`, `cutmix`: alpha of the beta distribution of the mixing weight, at most 1.
      With both, each batch uses one of them, chosen at random.

    Args:
        spec: Dict of entries.
        seed: Int ≥ 0.
        num_classes: Int, number of classes, for mixed labels.

    Returns:
        An `Augmentation`.

    Raises:
        ValueError: If a key is unknown or a value is out of range.

    Example:

    >>> spec = dict(crop_padding=4, flip=True, mixup=0.2)
    >>> augment = make_augmentation(spec, seed=0, num_classes=10)
    >>> images, labels = augment(np.zeros((8, 32, 32, 3), "uint8"), np.arange(8), 0, 0)
    >>> labels.shape
    (8, 10)

    Reference: [RandAugment](https://arxiv.org/abs/1909.13719),
    [random erasing](https://arxiv.org/abs/1708.04896), [mixup](https://arxiv.org/abs/1710.09412),
    [CutMix](https://arxiv.org/abs/1905.04899).
    """
    unknown = sorted(set(spec) - set(RULES))
    if unknown:
        raise ValueError(
            f"An augmentation has the keys {', '.join(RULES)}. Received: {', '.join(unknown)}"
        )
    spec = {key: value for key, value in spec.items() if value is not None and value != 0}
    for key, value in spec.items():
        _check_value(key, value)
    return Augmentation(spec, seed, num_classes)


def _check_value(key, value):
    if key == "randaugment":
        if not isinstance(value, dict) or set(value) - {"num_ops", "factor"}:
            raise ValueError(
                f"`{key}` must be a dict of num_ops and factor. Received: {key}={value!r}"
            )
        return
    kind, least, most = RULES[key]
    if not isinstance(value, kind) or not least <= value <= most:
        number = "an integer" if kind is int else "a number"
        within = f"{number} from {least} to {most}, or 0 for none"
        rule = "True or False" if kind is bool else within
        raise ValueError(f"`{key}` must be {rule}. Received: {key}={value!r}")


@keras.saving.register_keras_serializable("keras_permix")
class MixUp(keras.layers.MixUp):
    """Mix images like Keras' `MixUp`, with an int32 order: int64 makes JAX warn."""

    def get_random_transformation(self, data, training=True, seed=None):
        batch = ops.shape(data)[0]
        return {
            "permutation_order": keras.random.shuffle(ops.arange(batch, dtype="int32"), seed=seed),
            "mix_weight": _mix_weights(batch, self.alpha, seed),
        }


@keras.saving.register_keras_serializable("keras_permix")
class CutMix(keras.layers.CutMix):
    """Mix images like Keras' `CutMix`, with thread-safe weights."""

    def _generate_mix_weight(self, batch_size, seed):
        return _mix_weights(batch_size, self.factor[0], seed)


def _mix_weights(batch, alpha, seed):
    rng = np.random.default_rng(ops.convert_to_numpy(seed.next()))
    return ops.convert_to_tensor(rng.beta(alpha, alpha, batch), "float32")


class Augmentation:
    """Augment a batch; made by `make_augmentation`.

    The result depends only on the batch, the seed, the epoch and the batch index.

    Args:
        spec: Dict, checked by `make_augmentation`.
        seed: Int ≥ 0.
        num_classes: Int, number of classes, for mixed labels.

    Example:

    >>> augment = make_augmentation({"flip": True}, seed=0, num_classes=10)
    >>> images = np.random.default_rng(0).integers(256, size=(8, 4, 4, 3), dtype="uint8")
    >>> once, again = (augment(images, np.arange(8), epoch=0, index=0)[0] for _ in range(2))
    >>> bool((once == again).all()), bool((once == images).all())
    (True, False)
    """

    def __init__(self, spec: dict[str, Any], seed: int, num_classes: int) -> None:
        self.seed, self.num_classes = seed, num_classes
        self.crop_padding = spec.get("crop_padding", 0)
        self.flip = spec.get("flip", False)
        self.rand_augment = RandAugment(**spec["randaugment"]) if "randaugment" in spec else None
        self.image_layers, self.mixers = [], []
        # In float32 whatever the dtype policy: levels up to 255 need it.
        if "erasing" in spec:
            # Keras draws the probability between two numbers: they are the same one here.
            factor = (spec["erasing"], spec["erasing"])
            self.image_layers.append(_keras_layer(keras.layers.RandomErasing, factor=factor))
        if "mixup" in spec:
            self.mixers.append(_keras_layer(MixUp, alpha=spec["mixup"]))
        if "cutmix" in spec:
            # Keras draws alpha between two numbers: likewise.
            factor = (spec["cutmix"], spec["cutmix"])
            self.mixers.append(_keras_layer(CutMix, factor=factor))

    def __call__(
        self, images: np.ndarray, labels: np.ndarray, epoch: int, index: int
    ) -> tuple[np.ndarray, np.ndarray]:
        """Augment batch `index` of an epoch.

        Args:
            images: Array of uint8 or floats `(batch, height, width, channels)`, levels 0 to 255.
                RandAugment takes images with one channel or three, and rounds floats.
            labels: Int array `(batch,)`.
            epoch: Int ≥ 0.
            index: Int ≥ 0.

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
        if not self.image_layers and not self.mixers:
            return images, labels
        with _for_itself():
            return self._apply_layers(images, labels, rng)

    def _apply_layers(self, images, labels, rng):
        seed = keras.random.SeedGenerator(int(rng.integers(2**31)))
        images = ops.convert_to_tensor(images, "float32")
        for layer in self.image_layers:
            drawn = layer.get_random_transformation(images, training=True, seed=seed)
            images = layer.transform_images(images, drawn)
        if self.mixers:
            layer = self.mixers[rng.integers(len(self.mixers))]
            drawn = layer.get_random_transformation(images, training=True, seed=seed)
            images = layer.transform_images(images, drawn)
            one_hot = ops.convert_to_tensor(np.eye(self.num_classes, dtype="float32")[labels])
            labels = ops.convert_to_numpy(layer.transform_labels(one_hot, drawn))
        return ops.convert_to_numpy(images), labels


@contextlib.contextmanager
def _for_itself():
    """Compute on this process's CPU, also where a run is shared by devices."""
    shared = keras.distribution.distribution()
    keras.distribution.set_distribution(None)
    try:
        with keras.device(running.cpu()):
            yield
    finally:
        keras.distribution.set_distribution(shared)


def _keras_layer(make, **kwargs):
    return make(**kwargs, data_format="channels_last", dtype="float32")


def random_crop(images, rng, padding):
    """Pad images with zeros and crop each to its size at a random offset.

    Args:
        images: Array `(batch, height, width, channels)`.
        rng: A `numpy.random.Generator`.
        padding: Pixels on each side.

    Returns:
        An array of the shape and dtype of `images`.
    """
    batch, *shape = images.shape
    sides = ((0, 0), (padding, padding), (padding, padding), (0, 0))
    windows = np.lib.stride_tricks.sliding_window_view(np.pad(images, sides), shape, axis=(1, 2, 3))
    top, left = rng.integers(0, 2 * padding, (2, batch), endpoint=True)
    return windows[np.arange(batch), top, left, 0]


def random_flip(images, rng):
    """Flip about half of the images left to right.

    Args:
        images: Array `(batch, height, width, channels)`.
        rng: A `numpy.random.Generator`.

    Returns:
        An array of the shape and dtype of `images`.
    """
    flipped = rng.random(len(images)) < 0.5
    images = images.copy()
    images[flipped] = images[flipped, :, ::-1]
    return images
