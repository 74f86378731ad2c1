"""Test maps of `SimpleAttention` against the quadratic form in NumPy."""

import keras
import numpy as np
import pytest
from matplotlib.figure import Figure

from keras_permix.analysis import plot_attention_maps, simple_attention_maps
from keras_permix.layers import SimpleAttention, SoftmaxAttention
from tests.harness import assert_close, to_numpy
from tests.oracle import attention as oracle

X = np.random.default_rng(0).normal(size=(2, 6, 8)).astype("float32")
MASK = np.arange(6) < np.array([[6], [4]])


def make(**arguments):
    layer = SimpleAttention(4, use_output_projection=False, **arguments)
    layer.build(X.shape)
    return layer


@pytest.mark.parametrize("mask", [None, MASK], ids=["unmasked", "masked"])
@pytest.mark.parametrize(
    "arguments", [dict(), dict(scale="valid", causal=True), dict(scale=None)], ids=str
)
def test_maps_match_quadratic_form(arguments, mask):
    layer = make(**arguments)
    maps = simple_attention_maps(layer, X, mask)
    query, key, value = np.split(to_numpy(layer.qkv_dense(X)), 3, axis=-1)
    query, key = query.reshape(2, 6, 4, 2), key.reshape(2, 6, 4, 2)
    assert_close(maps, oracle.simple_attention_maps(query, key, mask, **arguments))
    attended = np.einsum("bhnm,bmhe->bnhe", maps, value.reshape(2, 6, 4, 2))
    assert_close(attended.reshape(X.shape), to_numpy(layer(X, mask=mask)))


@pytest.mark.parametrize(
    ("heads", "chosen"), [([3, 1], [3, 1]), (1, [1]), (np.int64(2), [2]), (slice(2), [0, 1])]
)
def test_maps_of_chosen_heads(heads, chosen):
    layer = make()
    maps = simple_attention_maps(layer, X)
    np.testing.assert_array_equal(simple_attention_maps(layer, X, heads=heads), maps[:, chosen])


@pytest.mark.parametrize("layer", [keras.layers.Dense(3), SoftmaxAttention(2)])
def test_unsupported_layer_raises(layer):
    kind = type(layer).__name__
    with pytest.raises(TypeError, match=f"`layer` must be .* Received: layer={kind}"):
        simple_attention_maps(layer, X)


def test_plot_shows_maps_on_one_scale():
    maps = simple_attention_maps(make(), X)[0]
    axes = Figure().subplots(1, 4)
    plot_attention_maps(axes, maps)
    for ax, matrix in zip(axes, maps, strict=True):
        np.testing.assert_array_equal(ax.images[0].get_array(), matrix)
        assert ax.images[0].get_clim() == (-np.abs(maps).max(), np.abs(maps).max())
