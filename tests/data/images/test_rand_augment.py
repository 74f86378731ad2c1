"""Test RandAugment: operations compared with plain NumPy, random choices and errors."""

import math

import numpy as np
import pytest
from PIL import Image

from keras_permix.data import RandAugment
from keras_permix.data.images.rand_augment import KINDS

SIZE = 24
RNG = np.random.default_rng(0)
COARSE = RNG.integers(0, 120, (28, 6, 6, 3)).repeat(4, 1).repeat(4, 2)
IMAGES = (COARSE + RNG.integers(20, 100, (28, SIZE, SIZE, 3))).astype("uint8")
X = IMAGES[0].astype("float64")


def gray(x):
    return np.repeat((x @ [0.299, 0.587, 0.114])[..., None], 3, axis=-1)


def smooth(x):
    """Return the mean of 3 x 3 pixels, with weight 5 for the center, and keep the border."""
    out = x.copy()
    for row in range(1, SIZE - 1):
        for column in range(1, SIZE - 1):
            window = x[row - 1 : row + 2, column - 1 : column + 2]
            out[row, column] = (window.sum((0, 1)) + 4 * x[row, column]) / 13
    return out


def stretched(x):
    low, high = x.min((0, 1)), x.max((0, 1))
    return (x - low) * 255 / (high - low)


def equalized(x):
    """Map each level to the fraction of pixels below it, as in Pillow's manual."""
    out = np.empty_like(x)
    for channel in range(3):
        levels = x[..., channel].astype(int)
        counts = np.bincount(levels.ravel(), minlength=256)
        step = (counts.sum() - counts[levels.max()]) // 255
        below = np.cumsum(counts) - counts
        out[..., channel] = np.clip((step // 2 + below) // step, 0, 255)[levels]
    return out


def blended(dull, amount):
    return np.clip(X + 0.9 * amount * (X - dull), 0, 255)


LUMA = np.full_like(X, round(gray(X).mean()))
# Operation -> expected image for a strength. Pillow rounds to integers, sometimes twice.
POINTWISE = {
    "identity": lambda a: X,
    "auto_contrast": lambda a: stretched(X),
    "solarize": lambda a: np.where(256 * (1 - abs(a)) <= X, 255 - X, X),
    "posterize": lambda a: X // 2 ** round(4 * abs(a)) * 2 ** round(4 * abs(a)),
    "color": lambda a: blended(gray(X), a),
    "contrast": lambda a: blended(LUMA, a),
    "brightness": lambda a: blended(np.zeros_like(X), a),
    "sharpness": lambda a: blended(smooth(X), a),
}


def apply(kind, image, amount):
    return np.asarray(KINDS[kind](Image.fromarray(image), amount)).astype("float64")


@pytest.mark.parametrize("amount", [0.5, -0.5, 0.0])
@pytest.mark.parametrize("kind", POINTWISE)
def test_pointwise_operations(kind, amount):
    assert np.abs(apply(kind, IMAGES[0], amount) - POINTWISE[kind](amount)).max() <= 1.5


def test_equalize():
    """Use more pixels than levels; with fewer, equalization has no effect."""
    image = np.tile(IMAGES[0], (4, 4, 1))
    np.testing.assert_array_equal(apply("equalize", image, 0.5), equalized(image.astype("float64")))


@pytest.mark.parametrize("sign", [1, -1])
def test_translations_move_whole_pixels_and_fill_with_gray(sign):
    moved = 6
    amount = sign * moved / (0.45 * SIZE)
    by_x, by_y = (apply(f"translate_{axis}", IMAGES[0], amount) for axis in "xy")
    expected = np.full_like(X, 128)
    if sign > 0:
        expected[:, : SIZE - moved] = X[:, moved:]
    else:
        expected[:, moved:] = X[:, : SIZE - moved]
    assert np.abs(by_x - expected).max() <= 1  # Pillow truncates to integers
    transposed = apply("translate_x", IMAGES[0].transpose(1, 0, 2).copy(), amount)
    np.testing.assert_array_equal(by_y, transposed.transpose(1, 0, 2))


def ramp():
    """Return centered coordinates, and an image that encodes them with ten levels per pixel."""
    middle = (SIZE - 1) / 2
    y, x = np.mgrid[:SIZE, :SIZE] - middle
    return x, y, np.stack([128 + 10 * x, 128 + 10 * y, 0 * x], axis=-1).round().astype("uint8")


@pytest.mark.parametrize("amount", [0.6, -0.4])
@pytest.mark.parametrize("kind", ["rotate", "shear_x", "shear_y"])
def test_warps_sample_expected_coordinates(kind, amount):
    x, y, image = ramp()
    angle, shear = math.radians(30) * amount, 0.3 * amount
    across, down = {
        "rotate": (x * np.cos(angle) - y * np.sin(angle), x * np.sin(angle) + y * np.cos(angle)),
        "shear_x": (x + shear * y, y),
        "shear_y": (x, y + shear * x),
    }[kind]
    inside = (abs(across) < SIZE / 2 - 1) & (abs(down) < SIZE / 2 - 1)
    result = apply(kind, image, amount)
    assert inside.mean() > 0.6
    assert np.abs(result[..., 0] - (128 + 10 * across))[inside].max() <= 1.5
    assert np.abs(result[..., 1] - (128 + 10 * down))[inside].max() <= 1.5
    outside = (abs(across) > SIZE / 2) | (abs(down) > SIZE / 2)
    assert outside.any() and (result[outside] == 128).all()


def test_operations_differ_between_images():
    same = np.broadcast_to(IMAGES[:1], IMAGES.shape)
    changed = RandAugment(1, 0.5)(same, np.random.default_rng(0))
    assert changed.dtype == "uint8" and len({image.tobytes() for image in changed}) > 8


def test_result_depends_on_generator():
    first, second, other = (
        RandAugment(2, 0.5)(IMAGES, np.random.default_rng(seed)) for seed in (0, 0, 1)
    )
    np.testing.assert_array_equal(first, second)
    assert not np.array_equal(first, other)


def test_num_ops_and_factor_are_applied_per_image(monkeypatch):
    """Each operation has the strength `factor` with a random sign."""
    seen = []

    def noted(picture, amount):
        seen.append(amount)
        return picture

    monkeypatch.setattr("keras_permix.data.images.rand_augment.OPERATIONS", [noted] * len(KINDS))
    RandAugment(3, 0.25)(IMAGES, np.random.default_rng(0))
    assert len(seen) == 3 * len(IMAGES) and set(seen) == {-0.25, 0.25}


def test_one_channel_and_floats():
    images = IMAGES[..., :1].astype("float32")
    changed = RandAugment(1, 0.5)(images, np.random.default_rng(0))
    assert changed.shape == (28, SIZE, SIZE, 1) and changed.dtype == "uint8"


def test_empty_batch():
    assert RandAugment()(IMAGES[:0], np.random.default_rng(0)).shape == (0, 24, 24, 3)


@pytest.mark.parametrize("factor", [-0.1, 9])
def test_factor_out_of_range_raises(factor):
    with pytest.raises(ValueError, match=f"`factor` must be a number from 0 to 1.*factor={factor}"):
        RandAugment(2, factor)
