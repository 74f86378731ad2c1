"""Test `patchify` and `unpatchify` against NumPy."""

import keras
import numpy as np
import pytest

from keras_permix import ops
from tests.backends import compiled, value_and_gradient
from tests.harness import to_numpy
from tests.oracle import butterfly as oracle

IMAGES = np.random.default_rng(0).integers(0, 99, (2, 6, 12, 5)).astype("float32")


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "uint8"])
@pytest.mark.parametrize("size", [1, 2, 3, 6])
def test_round_trip(size, dtype):
    images = keras.ops.convert_to_tensor(IMAGES, dtype)
    patches = ops.patchify(images, size)
    assert patches.dtype == images.dtype
    np.testing.assert_array_equal(to_numpy(patches), oracle.patches(IMAGES, size))
    back = ops.unpatchify(patches, size, 6, 12)
    np.testing.assert_array_equal(to_numpy(back), IMAGES)
    np.testing.assert_array_equal(oracle.image(to_numpy(patches), size, 6, 12), IMAGES)


def test_gradients_apply_the_inverse():
    patches = oracle.patches(IMAGES, 3)
    _, gradient = value_and_gradient(lambda t: ops.patchify(t, 3), 0 * IMAGES, patches)
    np.testing.assert_array_equal(to_numpy(gradient), IMAGES)
    _, gradient = value_and_gradient(lambda t: ops.unpatchify(t, 3, 6, 12), 0 * patches, IMAGES)
    np.testing.assert_array_equal(to_numpy(gradient), patches)


@pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")
def test_compiled():
    patches = compiled(lambda t: ops.patchify(t, 3))(keras.ops.convert_to_tensor(IMAGES))
    np.testing.assert_array_equal(to_numpy(patches), oracle.patches(IMAGES, 3))


def test_symbolic_calls():
    inputs = keras.Input((6, 12, 5))
    patches = ops.patchify(inputs, 3)
    assert patches.shape == (None, 8, 45)
    back = ops.unpatchify(patches, 3, 6, 12)
    assert back.shape == (None, 6, 12, 5)
    model = keras.Model(inputs, [patches, back])
    again = keras.Model.from_config(model.get_config())
    for result in (model.predict(IMAGES, verbose=0), again.predict(IMAGES, verbose=0)):
        np.testing.assert_array_equal(result[0], oracle.patches(IMAGES, 3))
        np.testing.assert_array_equal(result[1], IMAGES)


def test_images_of_any_size():
    inputs = keras.Input((None, None, 5))
    model = keras.Model(inputs, ops.patchify(inputs, 3))
    assert model.output_shape == (None, None, 45)
    for images in (IMAGES, IMAGES[:, :3], IMAGES[:, :, :9]):
        np.testing.assert_array_equal(model.predict(images, verbose=0), oracle.patches(images, 3))


def test_explain_chooses_reference():
    assert ops.explain("patchify", IMAGES, 3).chosen == "reference"


ERRORS = {
    "images": (lambda: ops.patchify(IMAGES[0], 3), r"`images` must have.*\(6, 12, 5\)"),
    "size": (lambda: ops.patchify(IMAGES, 4), "`size` must divide.*size=4"),
    "size 0": (lambda: ops.patchify(IMAGES, 0), "`size` must be a positive integer.*size=0"),
    "size 2.0": (lambda: ops.patchify(IMAGES, 2.0), "`size` must be a positive integer.*size=2.0"),
    "features": (
        lambda: ops.unpatchify(np.zeros((2, 8, 44)), 3, 6, 12),
        r"`patches` must fit `size`.*size=3.*patches.shape=\(2, 8, 44\)",
    ),
    "number": (
        lambda: ops.unpatchify(np.zeros((2, 8, 45)), 3, 6, 15),
        r"`patches` must fit.*height=6, width=15, patches.shape=\(2, 8, 45\)",
    ),
    "height": (
        lambda: ops.unpatchify(np.zeros((2, 8, 45)), 3, 7, 12),
        "`size` must divide.*height=7",
    ),
    "NumPy sides": (
        lambda: ops.unpatchify(np.zeros((1, 2, 4)), 2, np.int64(3), np.int64(4)),
        "`size` must divide.*height=3, width=4",
    ),
}


@pytest.mark.parametrize("name", ERRORS)
def test_wrong_argument_raises(name):
    call, message = ERRORS[name]
    with pytest.raises(ValueError, match=f"(?s){message}"):
        call()
