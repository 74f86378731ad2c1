"""Test maps of Butterfly Attention against layer outputs, and their product."""

import keras
import numpy as np
import pytest
from matplotlib.figure import Figure

from keras_permix.analysis import butterfly_maps, plot_attention_maps
from keras_permix.layers import CSP, ButterflyBlock, MixerBlock, SoftmaxAttention
from tests.harness import assert_close, to_numpy

X = np.random.default_rng(0).normal(size=(3, 16, 8)).astype("float32")
MASK = np.random.default_rng(1).random((3, 16)) < 0.7


def make(stage=1, wrap=lambda attention: attention):
    layer = ButterflyBlock(wrap(SoftmaxAttention(2)), 4, stage)
    layer.build(X.shape)
    return layer


@pytest.mark.parametrize("mask", [None, MASK], ids=["unmasked", "masked"])
@pytest.mark.parametrize("stage", [0, 1])
def test_maps_reproduce_layer_outputs(stage, mask):
    layer = make(stage)
    maps = butterfly_maps(layer, X, mask)
    np.testing.assert_allclose(maps.sum(axis=-1), 1, rtol=1e-5)
    values = (X @ layer.block.qkv_dense.kernel.numpy())[..., 16:].reshape(3, 16, 2, 4)
    mixed = np.einsum("bhnm,bmhd->bnhd", maps, values).reshape(X.shape)
    kernel, bias = (weight.numpy() for weight in layer.block.output_dense.weights)
    assert_close(to_numpy(layer(X, mask=mask)), mixed @ kernel + bias)


def test_only_all_layers_mix_all_tokens():
    first, second = (butterfly_maps(make(stage), X) for stage in (0, 1))
    assert (first > 0).mean() == (second > 0).mean() == 4 / 16
    assert (second @ first > 0).all()


def test_maps_of_mixer_block_use_normalized_tokens():
    for norm_first in (True, False):
        layer = make(wrap=lambda mixer, first=norm_first: MixerBlock(mixer, 8, norm_first=first))
        seen = to_numpy(layer.block.mixer_norm(X)) if norm_first else X
        alone = ButterflyBlock(layer.block.mixer, 4, 1)
        assert_close(butterfly_maps(layer, X), butterfly_maps(alone, seen))


@pytest.mark.parametrize(
    "layer",
    [
        keras.layers.Dense(3),
        SoftmaxAttention(2),
        ButterflyBlock(CSP(), 4),
        ButterflyBlock(SoftmaxAttention(2), 4, axis=-1),
    ],
)
def test_unsupported_layer_raises(layer):
    with pytest.raises(TypeError, match="`layer` must be a ButterflyBlock.* Received: layer="):
        butterfly_maps(layer, X)


def test_plot_shows_maps():
    axes, maps = Figure().subplots(1, 2), butterfly_maps(make(), X)[0]
    plot_attention_maps(axes, maps)
    for ax, weights in zip(axes, maps, strict=True):
        np.testing.assert_array_equal(ax.images[0].get_array(), weights)
