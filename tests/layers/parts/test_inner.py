"""Layers around a layer of any kind: what they take, how they call it, and with which masks."""

import keras
import numpy as np
import pytest

from keras_permix.layers import CSP, ButterflyBlock, MixerBlock
from tests.backends import value_and_gradient
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


# Where a token may attend to nothing: by the mask, by that of attention, by both together.
BLIND = {
    "mask": (np.arange(8) < [[8], [0]], None),
    "attention": (None, np.stack([np.tri(8), np.tri(8, k=-1)])),
    "both": (np.arange(8) >= [[0], [3]], np.stack([np.tri(8), np.tri(8)])),
}


@pytest.mark.parametrize("kind", BLIND)
def test_what_may_attend_to_nothing_attends_to_all(kind):
    """Its gradient as well, which PyTorch has too large where a query may attend to nothing."""
    mask, allowed = BLIND[kind]
    layer = MixerBlock(keras.layers.MultiHeadAttention(2, 8), 4)
    layer(X)
    seen = np.ones((2, 8, 8), bool) if allowed is None else allowed.astype(bool)
    seen = seen if mask is None else seen & mask[:, None]
    seen |= ~seen.any(axis=-1, keepdims=True)
    masks = {"mask": mask, "attention_mask": allowed}
    masks = {key: keras.ops.cast(m, "bool") for key, m in masks.items() if m is not None}
    cotangent = np.random.default_rng(1).normal(size=X.shape).astype("float32")
    for found, expected in zip(
        value_and_gradient(lambda x: layer(x, **masks), X, cotangent),
        value_and_gradient(lambda x: layer(x, attention_mask=seen), X, cotangent),
        strict=True,
    ):
        assert_close(to_numpy(found), to_numpy(expected))


def test_a_block_without_a_real_token_attends_to_all():
    layer = ButterflyBlock(keras.layers.MultiHeadAttention(2, 8), 4)
    layer(X)
    cotangent = np.random.default_rng(1).normal(size=X.shape).astype("float32")
    mask = keras.ops.convert_to_tensor(np.arange(8) < [[8], [0]])
    for found, expected in zip(
        value_and_gradient(lambda x: layer(x, mask=mask), X, cotangent),
        value_and_gradient(layer, X, cotangent),
        strict=True,
    ):
        assert_close(to_numpy(found), to_numpy(expected))


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
