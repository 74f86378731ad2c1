"""Test SoftmaxAttention against NumPy, with and without masks, and its errors."""

import keras
import numpy as np
import pytest

from keras_permix.layers import ButterflyBlock, MixerBlock, SoftmaxAttention
from keras_permix.layers.attention.softmax_attention import softmax_weights
from tests.harness import assert_close, to_numpy

X = np.random.default_rng(0).normal(size=(3, 7, 8)).astype("float32")
MASK = np.arange(7) < np.array([[7], [4], [1]])


def attend(layer, inputs, head_dim, mask):
    """Attend in float64, one head at a time; samples without real keys use all keys."""
    mask = mask | ~mask.any(axis=1, keepdims=True)
    kernel, *bias = (weight.numpy().astype("float64") for weight in layer.qkv_dense.weights)
    query, key, value = np.split(inputs @ kernel + (bias[0] if bias else 0), 3, axis=-1)
    heads = []
    for start in range(0, query.shape[-1], head_dim):
        part = np.s_[..., start : start + head_dim]
        scores = query[part] @ key[part].swapaxes(1, 2) / np.sqrt(head_dim)
        scores = np.where(mask[:, None, :], scores, -np.inf)
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        heads.append(weights / weights.sum(-1, keepdims=True) @ value[part])
    kernel, bias = (weight.numpy() for weight in layer.output_dense.weights)
    return np.concatenate(heads, axis=-1) @ kernel + bias


@pytest.mark.once
def test_large_float16_scores_do_not_overflow():
    """The product of query and key is 102,400, above the largest float16 number."""
    tokens = np.full((1, 2, 1, 64), 40, "float16")
    assert to_numpy(softmax_weights(tokens, tokens)).tolist() == [[[[0.5, 0.5], [0.5, 0.5]]]]


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("fused", [True, False])
@pytest.mark.parametrize(
    ("arguments", "head_dim"),
    [(dict(num_heads=2), 4), (dict(num_heads=3, head_dim=5, use_qkv_bias=True), 5)],
)
def test_layer_matches_numpy(arguments, head_dim, fused, masked):
    layer = SoftmaxAttention(**arguments, fused=fused)
    layer.build(X.shape)
    for weight in layer.weights:
        weight.assign(weight + 0.1)
    mask = MASK if masked else None
    wanted = attend(layer, X, head_dim, MASK if masked else np.ones_like(MASK))
    assert_close(to_numpy(layer(X, mask=mask)), wanted)


@pytest.mark.skipif(keras.config.backend() == "jax", reason="JAX uses float32 by default")
@pytest.mark.parametrize("mask", [None, MASK], ids=["", "masked"])
def test_float64_is_kept(mask):
    layer = SoftmaxAttention(2, dtype="float64")
    layer.build(X.shape)
    wanted = attend(layer, X, 4, np.ones_like(MASK) if mask is None else mask)
    assert_close(to_numpy(layer(X, mask=mask)), wanted, dtype="float64")


@pytest.mark.parametrize("fused", [True, False])
def test_padding_is_ignored_for_very_low_scores(fused):
    """All real tokens have the same, very low score."""
    layer = SoftmaxAttention(1, use_qkv_bias=True, fused=fused)
    layer.build(X.shape)
    kernel, bias = (np.zeros(weight.shape) for weight in layer.qkv_dense.weights)
    bias[:8], bias[8:16] = 1e3, -1e3
    kernel[:, 16:] = np.eye(8)
    layer.qkv_dense.set_weights([kernel, bias])
    assert_close(to_numpy(layer(X, mask=MASK)), attend(layer, X, 8, MASK))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (dict(num_heads=0), "`num_heads` must be a positive integer.*0"),
        (dict(num_heads=3), "`num_heads` must divide.* width 8 .*num_heads=3"),
        (dict(head_dim=1.5), "`head_dim` must be a positive integer.*1.5"),
        (dict(dropout=2), r"`dropout` must be in \[0, 1\).*2"),
    ],
)
def test_invalid_argument_raises(arguments, message):
    with pytest.raises(ValueError, match=f"(?s){message}"):
        SoftmaxAttention(**arguments)(X)


@pytest.mark.parametrize(
    "make",
    [
        lambda: SoftmaxAttention(2),
        lambda: MixerBlock(SoftmaxAttention(2), 8),
        lambda: MixerBlock(keras.layers.MultiHeadAttention(2, 4), 8),
        lambda: ButterflyBlock(SoftmaxAttention(2), 2),
    ],
)
@pytest.mark.parametrize("compiled", [False, True])
def test_mask_of_keras_is_kept_beside_an_attention_mask(make, compiled):
    """Keras passes its mask as `mask` only to calls with one tensor."""
    layer, allowed = make(), np.ones((4, 4), bool)
    if isinstance(layer, ButterflyBlock):
        allowed = np.ones((1, 2, 1, 2, 2), bool)
    tokens = keras.Input((4,), dtype="int32")
    embedding = keras.layers.Embedding(5, 8, mask_zero=True)
    model = keras.Model(tokens, layer(embedding(tokens), attention_mask=allowed))
    given = np.array([[1, 2, 0, 0]])
    found = model.predict(given, verbose=0) if compiled else to_numpy(model(given))
    wanted = to_numpy(layer(to_numpy(embedding(given))[:, :2]))
    assert_close(found[:, :2], wanted)
