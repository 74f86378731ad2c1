"""RandAugment: each operation against Pillow's, and each image by itself."""

import math

import keras
import numpy as np
import pytest
from keras import ops
from PIL import Image, ImageEnhance, ImageOps

from keras_permix.data import RandAugment
from keras_permix.data.images.rand_augment import KINDS, apply_kinds

SIZE = 24
STRENGTH = 0.5
RNG = np.random.default_rng(0)
BATCH = 2 * len(KINDS)
COARSE = RNG.integers(0, 120, (BATCH, 6, 6, 3)).repeat(4, 1).repeat(4, 2)
IMAGES = (COARSE + RNG.integers(20, 100, (BATCH, SIZE, SIZE, 3))).astype("uint8")
ENHANCERS = {
    "color": ImageEnhance.Color,
    "contrast": ImageEnhance.Contrast,
    "brightness": ImageEnhance.Brightness,
    "sharpness": ImageEnhance.Sharpness,
}


def affine(picture, a, b, c, d):
    """Sample at `(x, y) -> (a x + b y, c x + d y)` about the middle, or shifted by (b, d)."""
    middle = SIZE / 2
    matrix = (a, b, middle - (a + b) * middle, c, d, middle - (c + d) * middle)
    return transform(picture, matrix)


def transform(picture, matrix):
    return picture.transform(
        picture.size, Image.Transform.AFFINE, matrix, Image.Resampling.BILINEAR,
        fillcolor=(128,) * 3,
    )  # fmt: skip


def by_pillow(kind, picture):
    cos, sin = math.cos(math.radians(15)), math.sin(math.radians(15))
    shift = 0.45 * STRENGTH * SIZE
    if kind in ENHANCERS:
        return ENHANCERS[kind](picture).enhance(1 + 0.9 * STRENGTH)
    return {
        "identity": lambda: picture,
        "auto_contrast": lambda: ImageOps.autocontrast(picture),
        "equalize": lambda: ImageOps.equalize(picture),
        "solarize": lambda: ImageOps.solarize(picture, 128),
        "posterize": lambda: ImageOps.posterize(picture, 6),
        "rotate": lambda: affine(picture, cos, -sin, sin, cos),
        "shear_x": lambda: affine(picture, 1, 0.3 * STRENGTH, 0, 1),
        "shear_y": lambda: affine(picture, 1, 0, 0.3 * STRENGTH, 1),
        "translate_x": lambda: transform(picture, (1, 0, shift, 0, 1, 0)),
        "translate_y": lambda: transform(picture, (1, 0, 0, 0, 1, shift)),
    }[kind]()


@pytest.fixture(autouse=True, scope="module")
def _cpu():
    """Where a pipeline runs it: what JAX compiled for the tests of that is there already."""
    with keras.device("cpu"):
        yield


@pytest.fixture(scope="module")
def changed():
    """Each kind twice, all in one batch."""
    kinds = ops.arange(BATCH, dtype="int32") % len(KINDS)
    amounts = ops.full((BATCH,), STRENGTH)
    return ops.convert_to_numpy(apply_kinds(ops.cast(IMAGES, "float32"), kinds, amounts))


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_is_pillows(kind, changed):
    numbers = [KINDS.index(kind), KINDS.index(kind) + len(KINDS)]
    pictures = [by_pillow(kind, Image.fromarray(IMAGES[number])) for number in numbers]
    expected = np.stack(pictures).astype("float32")
    difference = np.abs(changed[numbers] - expected)
    if kind in ("rotate", "shear_x", "shear_y", "translate_x", "translate_y"):
        # Pillow does not blend with the fill at the border of the image: a few pixels there.
        assert np.mean(difference > 1) < 0.08
        assert not np.allclose(expected, IMAGES[numbers], atol=20)
    else:
        # Pillow rounds to whole levels, some of its steps twice.
        assert difference.max() <= (0 if kind in ("identity", "equalize") else 1.5)


def test_images_of_a_batch_differ_in_what_is_done():
    same = np.broadcast_to(IMAGES[:1], IMAGES.shape)
    changed = ops.convert_to_numpy(RandAugment(1, 0.5, seed=0)(same, training=True))
    assert len({image.tobytes() for image in changed}) > 8


def test_the_seed_decides():
    first, second, other = (
        ops.convert_to_numpy(RandAugment(1, 0.5, seed=seed)(IMAGES, training=True))
        for seed in (0, 0, 1)
    )
    np.testing.assert_array_equal(first, second)
    assert not np.array_equal(first, other)


def test_inference_changes_nothing():
    np.testing.assert_array_equal(ops.convert_to_numpy(RandAugment(2)(IMAGES)), IMAGES)


def test_one_channel():
    changed = RandAugment(1, 0.5, seed=0)(IMAGES[..., :1], training=True)
    assert changed.shape == (BATCH, SIZE, SIZE, 1)


def test_config_round_trip():
    layer = RandAugment(num_ops=3, factor=0.2, seed=5)
    again = keras.saving.deserialize_keras_object(keras.saving.serialize_keras_object(layer))
    assert isinstance(again, RandAugment)
    assert (again.num_ops, again.factor, again.seed) == (3, 0.2, 5)


@pytest.mark.parametrize("arguments", [(0, 0.3), (1.5, 0.3), (2, -0.1), (2, 1.1)])
def test_bad_arguments(arguments):
    with pytest.raises(ValueError, match="`num_ops` must be an int.*Received: num_ops="):
        RandAugment(*arguments)
