"""Test augmentation: transformations of images and labels, determinism and errors."""

import importlib.util

import keras
import numpy as np
import pytest

from keras_permix.data import Augmentation
from keras_permix.data.images.augment import random_crop, random_flip
from tests.harness import assert_close, to_numpy

RNG = np.random.default_rng(0)
IMAGES = RNG.integers(1, 256, (28, 24, 24, 3), dtype="uint8")
LABELS = RNG.integers(0, 5, 28)
ALL = dict(
    crop_padding=2,
    flip=True,
    randaugment=dict(num_ops=1, factor=0.3),
    mixup=0.2,
    cutmix=1.0,
    erasing=0.25,
)


def augment(spec, images=IMAGES, labels=LABELS, seed=0, epoch=0, index=0):
    return Augmentation(spec, seed, num_classes=5)(images, labels, epoch, index)


def windows(image, padding):
    """Return all crops of a padded image by their offsets."""
    height, width, _ = image.shape
    padded = np.zeros((height + 2 * padding, width + 2 * padding, 3), image.dtype)
    padded[padding : padding + height, padding : padding + width] = image
    offsets = range(2 * padding + 1)
    return {
        (top, left): padded[top : top + height, left : left + width]
        for top in offsets
        for left in offsets
    }


def test_crop_uses_a_random_offset_per_image():
    cropped = random_crop(IMAGES, np.random.default_rng(0), padding=2)
    offsets = []
    for image, crop in zip(IMAGES, cropped, strict=True):
        offsets += [at for at, cut in windows(image, 2).items() if np.array_equal(cut, crop)]
    assert len(offsets) == len(IMAGES)
    assert {top for top, _ in offsets} == {left for _, left in offsets} == set(range(5))


def test_flip_mirrors_some_images():
    flipped = random_flip(IMAGES, np.random.default_rng(0))
    kept = [np.array_equal(a, b) for a, b in zip(IMAGES, flipped, strict=True)]
    mirrored = [np.array_equal(a[:, ::-1], b) for a, b in zip(IMAGES, flipped, strict=True)]
    assert [not same for same in kept] == mirrored
    assert 7 < sum(kept) < 21


def test_crop_and_flip_keep_dtype_labels_and_input():
    before = IMAGES.copy()
    images, labels = augment(dict(crop_padding=2, flip=True))
    assert images.dtype == "uint8" and images.shape == IMAGES.shape
    assert labels is LABELS
    np.testing.assert_array_equal(IMAGES, before)


def test_disabled_augmentation_returns_inputs():
    images, labels = augment(dict(crop_padding=0, flip=False, randaugment=None, erasing=0.0))
    assert images is IMAGES and labels is LABELS


@pytest.mark.parametrize("spec", [dict(crop_padding=2, flip=True), ALL], ids=["crop", "all"])
def test_augmentation_depends_on_seed_epoch_and_index(spec):
    images, labels = augment(spec)
    again, labels_again = augment(spec)
    np.testing.assert_array_equal(images, again)
    np.testing.assert_array_equal(labels, labels_again)
    for change in (dict(seed=1), dict(epoch=1), dict(index=1)):
        assert not np.array_equal(images, augment(spec, **change)[0]), change


def test_all_augmentations_combined():
    images, labels = augment(ALL)
    assert (images.dtype, labels.dtype) == ("float32", "float32")
    assert images.shape == IMAGES.shape and labels.shape == (28, 5)
    assert images.min() >= 0 and images.max() <= 255.01


def two_kinds():
    """Return alternating plain images of level 200 (class 0) and level 40 (class 1)."""
    y = np.arange(len(IMAGES)) % 2
    levels = np.where(y == 0, 200, 40)[:, None, None, None]
    return np.broadcast_to(levels, IMAGES.shape).astype("uint8"), y


def mixing_weights(images, labels, first, second):
    """Return the fraction of the first of two classes in each image and in each label."""
    return (images.mean((1, 2, 3)) - second) / (first - second), labels[:, 0]


@pytest.mark.parametrize("kind", ["mixup", "cutmix"])
def test_labels_are_mixed_like_images(kind):
    images, labels = augment({kind: 1.0}, *two_kinds())
    assert_close(labels.sum(1), 1)
    of_images, of_labels = mixing_weights(images, labels, 200, 40)
    assert_close(of_images, of_labels)
    assert len(np.unique(of_labels.round(3))) > 8
    values = np.unique(images)
    assert len(values) > 8 if kind == "mixup" else set(values) == {40, 200}


@pytest.mark.parametrize("alpha", [0.01, 0.2, 1.0])
def test_mixup_weights_have_a_beta_distribution(alpha):
    """Compare the variance with `1 / (8 alpha + 4)`, within five standard errors."""
    weights = np.concatenate(
        [augment(dict(mixup=alpha), *two_kinds(), index=index)[1][:, 0] for index in range(200)]
    )
    mixed = weights[np.tile(two_kinds()[1] == 0, 200)]  # with a partner of either class
    assert np.isfinite(weights).all() and 0 <= weights.min() and weights.max() <= 1
    # In half of the cases, the partner is of the other class, and the label is the weight.
    expected = (0.5 + 0.5 * (1 / (8 * alpha + 4) + 0.25)) - 0.75**2
    error = 5 * np.sqrt(np.var((mixed - 0.75) ** 2) / len(mixed))
    assert abs(np.mean((mixed - 0.75) ** 2) - expected) < error


def test_each_batch_uses_mixup_or_cutmix():
    spec = dict(mixup=1.0, cutmix=1.0)
    batches = [augment(spec, *two_kinds(), index=index) for index in range(8)]
    pasted = [set(np.unique(images)) <= {40, 200} for images, _ in batches]
    assert 0 < sum(pasted) < 8


def test_erasing_fills_rectangles_in_some_images():
    images, labels = augment(dict(erasing=0.5), np.full_like(IMAGES, 7))
    assert labels is LABELS
    erased = (images != 7).any(-1)
    some = erased.any((1, 2))
    assert 7 < some.sum() < 21
    for mask in erased[some]:
        rows, columns = mask.any(1), mask.any(0)
        # Noise may equal the original value in a few pixels.
        assert mask.sum() >= 0.8 * rows.sum() * columns.sum()
    assert len({mask.tobytes() for mask in erased[some]}) > 4


def test_keras_layers():
    """Apply a deterministic Keras layer, and one with a seed that depends on the batch."""
    inverted, labels = augment(dict(layers=[dict(class_name="Solarization")]))
    assert labels is LABELS
    layer = keras.layers.Solarization(data_format="channels_last")
    assert_close(inverted, to_numpy(layer(IMAGES)), kind="model")
    spec = dict(layers=[dict(class_name="RandomBrightness", config=dict(factor=0.5))])
    first = augment(spec)[0]
    np.testing.assert_array_equal(first, augment(spec)[0])
    assert len(np.unique((first - IMAGES).round())) > 8
    assert not np.array_equal(first, augment(spec, index=1)[0])


@keras.saving.register_keras_serializable("tests")
class Sampler:
    """Hold a seed in the configuration of a layer."""

    def __init__(self, seed=None):
        self.seed = seed

    def get_config(self):
        return {"seed": self.seed}

    @classmethod
    def from_config(cls, config):
        return cls(**config)


@keras.saving.register_keras_serializable("tests")
class Shifted(keras.layers.Layer):
    """Add a random number with the seed of an object in the configuration."""

    def __init__(self, factor=None, **kwargs):
        super().__init__(**kwargs)
        is_config = isinstance(factor, dict)
        factor = keras.saving.deserialize_keras_object(factor) if is_config else factor
        self.factor = factor or Sampler()

    def call(self, images):
        return images + keras.random.uniform((), seed=self.factor.seed)

    def get_config(self):
        return {**super().get_config(), "factor": self.factor}


def test_registered_layers_get_a_seed_per_batch():
    layer = dict(registered_name="tests>Shifted")
    spec = dict(layers=[layer, layer])
    shifts = [augment(spec, index=index)[0] - IMAGES for index in (0, 0, 1)]
    np.testing.assert_array_equal(shifts[0], shifts[1])
    assert np.ptp(shifts[0]) < 1e-3 and abs(shifts[2].mean() - shifts[0].mean()) > 1e-3


def test_keras_cv_layers():
    layer = dict(registered_name="keras_cv>Grayscale", config=dict(output_channels=3))
    if importlib.util.find_spec("keras_cv") is None:
        with pytest.raises(ImportError, match=r'pip install "keras_permix\[cv\]"'):
            augment(dict(layers=[layer]))
        return
    gray, _ = augment(dict(layers=[layer]))
    np.testing.assert_array_equal(gray[..., 0], gray[..., 2])


def test_images_stay_float32_under_mixed_precision():
    policy = keras.config.dtype_policy()
    keras.config.set_dtype_policy("mixed_bfloat16")
    try:
        images, _ = augment(dict(mixup=0.2))
    finally:
        keras.config.set_dtype_policy(policy)
    expected, _ = augment(dict(mixup=0.2))
    np.testing.assert_array_equal(images, expected)


@pytest.mark.parametrize(
    ("spec", "rule"),
    [
        (dict(crop=4), "`augmentation` accepts crop_padding, .*Received: .'crop'"),
        (dict(crop_padding=-1), "`crop_padding` must be an integer of at least 0"),
        (dict(flip="yes"), "`flip` must be one of .*True.* Received: flip=.yes"),
        (dict(mixup=-0.1), "`mixup` must be a positive number. Received: mixup=-0.1"),
        (dict(cutmix="x"), "`cutmix` must be a positive number"),
        (dict(erasing=2), r"`erasing` must be in \[0, 1\]. Received: erasing=2"),
        (dict(erasing=True), "`erasing` .* Received: erasing=True"),
        (dict(mixup=True), "`mixup` must be a positive number. Received: mixup=True"),
        (dict(randaugment=True), "`randaugment` must be a table .* Received: randaugment=True"),
        (dict(randaugment=dict(n=2)), "RandAugment.* argument 'n'"),
        (dict(randaugment=dict(factor=2)), "`factor` must be a number from 0 to 1"),
        (dict(layers=[dict(name="Solarization")]), "`layers` accepts .*class_name"),
        (dict(layers=[dict(class_name="Nothing")]), "`layers` must name Keras layers.*'Nothing'"),
        (dict(layers=[dict(class_name="CutMix")]), "set `mixup` or `cutmix`. Received: .*CutMix"),
        (
            dict(layers=[dict(class_name="Solarization", config=dict(sun=1))]),
            "(?s)Solarization.*'sun'",
        ),
    ],
    ids=str,
)
def test_invalid_specs_raise(spec, rule):
    with pytest.raises((ValueError, TypeError), match=rule):
        Augmentation(spec, seed=0, num_classes=5)
