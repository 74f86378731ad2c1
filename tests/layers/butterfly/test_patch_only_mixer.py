"""Test PatchOnlyMixer against the authors' values and NumPy, and its errors."""

import numpy as np
import pytest

from keras_permix.layers import PatchOnlyMixer
from tests.harness import assert_close, functional, load_golden, to_numpy
from tests.layers.butterfly.golden import patch_only_weights
from tests.oracle import butterfly as oracle

GOLDEN = load_golden("mixers")
IMAGES = np.random.default_rng(0).normal(size=(2, 6, 12, 4)).astype("float32")


def test_layer_matches_authors():
    images = GOLDEN["patch_image"]
    layer = PatchOnlyMixer(3)
    layer.build(images.shape)
    layer.set_weights(patch_only_weights(GOLDEN))
    assert_close(to_numpy(layer(images.astype("float32"))), GOLDEN["patch_out"])


@pytest.mark.parametrize(("patch_size", "expansion"), [(2, 2), (6, 1), ((2, 3), 3)])
def test_layer_matches_numpy(patch_size, expansion):
    layer = PatchOnlyMixer(patch_size, expansion)
    layer.build(IMAGES.shape)
    for weight in layer.weights:
        weight.assign(weight + 0.1)
    assert_close(to_numpy(layer(IMAGES)), by_numpy(layer, IMAGES, expansion))


def by_numpy(layer, images, expansion=2):
    wanted = images.astype("float64")
    blocks = zip(layer.patch_sizes, layer.norms, layer.mlps_in, layer.mlps_out, strict=True)
    for size, *block in blocks:
        norm, mlp_in, mlp_out = ([w.numpy() for w in part.weights] for part in block)
        assert mlp_in[0].shape == (4 * size**2, 4 * size**2 * expansion)
        patches = oracle.layer_norm(oracle.patches(wanted, size), *norm)
        patches = oracle.gelu(patches @ mlp_in[0] + mlp_in[1]) @ mlp_out[0] + mlp_out[1]
        wanted = wanted + oracle.image(patches, size, *images.shape[1:3])
    return wanted


def test_images_of_any_size():
    layer = PatchOnlyMixer((2, 3))
    model = functional(layer, (None, None, 4))
    for images in (IMAGES, IMAGES[:, :, :6], np.concatenate([IMAGES, IMAGES], axis=1)):
        assert_close(model.predict(images, verbose=0), by_numpy(layer, images))


@pytest.mark.once
def test_sizes_with_a_common_divisor_warn():
    with pytest.warns(UserWarning, match=r"co-prime.*squares of 24 .*\[6, 8\]"):
        PatchOnlyMixer((6, 8))


def test_parameters_match_table_5():
    layer = PatchOnlyMixer((5, 7))
    layer.build((None, 35, 35, 3))
    assert 7 * layer.count_params() + (35 * 35 * 3 + 1) * 10 == 807_082


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (dict(patch_size=0), "`patch_size` must be a positive integer.*0"),
        (dict(patch_size=()), "`patch_size` must be.*Received"),
        (dict(patch_size=(3, 2.5)), "`patch_size` must be a positive integer.*2.5"),
        (dict(patch_size=4), "`size` must .*divide the height.*size=4, height=6"),
        (dict(patch_size=(3, 4)), "`size` must .*divide the height.*size=4"),
        (dict(patch_size=3, expansion=0), "`expansion` must be a positive integer.*0"),
    ],
)
def test_invalid_argument_raises(arguments, message):
    with pytest.raises(ValueError, match=f"(?s){message}"):
        PatchOnlyMixer(**arguments)(IMAGES)


def test_invalid_shape_raises():
    with pytest.raises(ValueError, match="expected ndim=4, found ndim=3.*6, 12, 4"):
        PatchOnlyMixer(3)(IMAGES[0])
