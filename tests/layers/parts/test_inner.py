"""Layers around a layer of any kind: what they take, how they call it, and with which masks."""

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
def test_what_is_no_layer_is_refused(name, inner):
    with pytest.raises(TypeError, match=rf"`{name}` must be a layer, such as `CSP\(\)`.*{name}="):
        AROUND[name](inner)


@pytest.mark.parametrize("name", AROUND)
def test_a_mask_goes_to_a_layer_that_takes_one(name):
    layer = AROUND[name](keras.layers.Dense(16))
    np.testing.assert_array_equal(to_numpy(layer(X, mask=MASK)), to_numpy(layer(X)))


def test_attention_of_keras_mixes_the_tokens():
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
def test_attention_without_a_mask_of_values_is_given_none(name):
    class Attention(keras.layers.MultiHeadAttention):
        def call(self, query, value, attention_mask=None):
            return super().call(query, value, attention_mask=attention_mask)

    layer = AROUND[name](Attention(2, 8))
    np.testing.assert_array_equal(to_numpy(layer(X, mask=MASK)), to_numpy(layer(X)))


@pytest.mark.parametrize("name", AROUND)
def test_a_mask_that_keras_carries_is_as_one_that_is_given(name):
    """Of queries as well: padding attends to real tokens, as in every mixer of ours."""
    layer = AROUND[name](keras.layers.MultiHeadAttention(2, 8))
    padded = np.where(MASK[..., None], X, 0)
    model = keras.Sequential([keras.layers.Masking(), layer])
    assert_close(to_numpy(model(padded)), to_numpy(layer(padded, mask=MASK)))
