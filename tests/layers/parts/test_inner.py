"""Test layers that wrap another layer: accepted types, calls and masks."""

import keras
import numpy as np
import pytest

from keras_permix.layers import CSP, ButterflyBlock, MixerBlock
from tests.harness import assert_close, check_extended, functional, to_numpy

X = np.random.default_rng(0).normal(size=(2, 8, 16)).astype("float32")
MASK = np.arange(8) < [[8], [5]]
AROUND = {
    "mixer": lambda inner: MixerBlock(inner, 4),
    "block": lambda inner: ButterflyBlock(inner, 4),
}


@pytest.mark.once
@pytest.mark.parametrize("inner", ["csp", CSP])
@pytest.mark.parametrize("name", AROUND)
def test_non_layer_raises(name, inner):
    with pytest.raises(TypeError, match=f"`{name}` must be a layer.*{name}="):
        AROUND[name](inner)


@pytest.mark.parametrize("name", AROUND)
def test_mask_is_not_passed_to_layer_without_mask(name):
    layer = AROUND[name](keras.layers.Dense(16))
    np.testing.assert_array_equal(to_numpy(layer(X, mask=MASK)), to_numpy(layer(X)))


def test_keras_attention_as_mixer():
    attention = keras.layers.MultiHeadAttention(2, 8)
    layer = MixerBlock(attention, 4)
    masked = to_numpy(layer(X, mask=MASK))
    normed = layer.mixer_norm(X)
    tokens = X + to_numpy(attention(normed, normed, value_mask=MASK))
    expected = tokens + to_numpy(layer.mlp_out(layer.mlp_in(layer.mlp_norm(tokens))))
    assert_close(masked, expected)
    assert np.abs(masked[1] - to_numpy(layer(X))[1]).max() > 1e-3
    check_extended(functional(layer, X.shape[1:]), X)


@pytest.mark.parametrize("name", AROUND)
def test_mask_is_not_passed_to_attention_without_value_mask(name):
    class Attention(keras.layers.MultiHeadAttention):
        def call(self, query, value, attention_mask=None):
            return super().call(query, value, attention_mask=attention_mask)

    layer = AROUND[name](Attention(2, 8))
    np.testing.assert_array_equal(to_numpy(layer(X, mask=MASK)), to_numpy(layer(X)))


@pytest.mark.parametrize("name", AROUND)
def test_implicit_mask_matches_explicit_mask(name):
    """Padded queries attend to real tokens, as in all mixers of this package."""
    layer = AROUND[name](keras.layers.MultiHeadAttention(2, 8))
    padded = np.where(MASK[..., None], X, 0)
    model = keras.Sequential([keras.layers.Masking(), layer])
    assert_close(to_numpy(model(padded)), to_numpy(layer(padded, mask=MASK)))
