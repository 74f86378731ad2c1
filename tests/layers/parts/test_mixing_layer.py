"""Test calls of mixers with the arguments of `MultiHeadAttention`, and their errors."""

from functools import partial

import keras
import numpy as np
import pytest

from keras_permix.layers import (
    CSP,
    ButterflyBlock,
    CausalCSP,
    LinearAttention,
    LocalAttention,
    SimpleAttention,
    SinkhornCSP,
    SliceSort,
    SoftmaxAttention,
)
from tests.harness import assert_close, to_numpy

X = np.random.default_rng(0).normal(size=(2, 6, 8)).astype("float32")
LAYERS = {
    "csp": CSP,
    "slice sort": SliceSort,
    "sinkhorn csp": partial(SinkhornCSP, iterations=2),
    "simple attention": partial(SimpleAttention, 2),
    "softmax attention": partial(SoftmaxAttention, 2),
}


@pytest.mark.parametrize("name", LAYERS)
def test_query_as_value_and_key(name):
    layer = LAYERS[name]()
    alone = to_numpy(layer(X))
    nothing = dict(attention_mask=None, use_causal_mask=False)
    for outputs in (layer(X, X), layer(X, X, X, **nothing), layer(X, value=X, key=X),
                    layer(query=X, value=X), layer(query=X)):  # fmt: skip
        np.testing.assert_array_equal(to_numpy(outputs), alone)


@pytest.mark.parametrize("name", LAYERS)
def test_query_mask_is_used(name):
    layer, mask = LAYERS[name](), np.arange(6) < [[6], [4]]
    inputs = keras.Input((6, 8))
    tokens = keras.layers.Masking()(inputs)
    model = keras.Model(inputs, layer(tokens, tokens))
    expected = to_numpy(layer(X * mask[..., None], mask=mask))
    assert_close(model.predict(X * mask[..., None], verbose=0)[mask], expected[mask])
    np.testing.assert_array_equal(to_numpy(layer(X, X, mask=mask)), to_numpy(layer(X, mask=mask)))


@pytest.mark.parametrize("name", [*LAYERS, "local attention"])
def test_unsupported_arguments_raise(name):
    layer = {**LAYERS, "local attention": partial(LocalAttention, 2)}[name]()
    cases = {
        r"`value` must be .*value.shape=\(2, 6, 8\)": dict(value=X + 1),
        r"`key` must be .*key.shape=\(2, 6, 8\)": dict(value=X, key=X + 1),
        "unexpected keyword argument 'return_attention": dict(return_attention_scores=True),
    }
    if name != "softmax attention":
        attention_mask = np.ones((1, 6, 6))
        cases[r"has no `attention_mask`.*shape=\(1, 6, 6\)"] = dict(attention_mask=attention_mask)
        cases["`use_causal_mask` must.*use_causal_mask=True"] = dict(use_causal_mask=True)
    for message, arguments in cases.items():
        with pytest.raises(TypeError, match=message):
            layer(X, **arguments)
    with pytest.raises(TypeError, match=r"`value` must be .*value.shape=\(2, 6\)"):
        layer(X, X[..., 0] > 0)


@pytest.mark.parametrize("name", LAYERS)
def test_mask_shape_error_is_one_line(name):
    layer = LAYERS[name]()
    for inputs, shape in ((X, (2, 5)), (X, (6,)), (X, (2, 6, 6)), (X[:, None], (2, 2, 6))):
        mask = np.ones(shape, bool)
        with pytest.raises(
            ValueError, match=r"^`mask` must have the shape \(batch, tokens\)"
        ) as error:
            layer(inputs, mask=mask)
        assert f"Received: mask.shape={shape}, inputs.shape=" in str(error.value)
        assert "\n" not in str(error.value)


@pytest.mark.parametrize("fused", [False, True])
def test_attention_mask_of_another_shape_raises(fused):
    layer = SoftmaxAttention(2, fused=fused)
    for shape in ((4, 6, 6), (2, 6), (6,), (2, 3, 6, 6), (1, 2, 2, 6, 6)):  # (batch * heads, …), …
        with pytest.raises(ValueError, match="`mask`. Received: attention_mask.shape=") as error:
            layer(X, attention_mask=np.ones(shape, bool))
        assert str(shape) in str(error.value)


@pytest.mark.parametrize(
    "make",
    [CausalCSP, *(partial(kind, 2, causal=True) for kind in (LinearAttention, SimpleAttention))],
)
def test_causal_layer_accepts_use_causal_mask(make):
    layer = make()
    alone = to_numpy(layer(X))
    np.testing.assert_array_equal(to_numpy(layer(X, X, use_causal_mask=True)), alone)


@pytest.mark.parametrize("fused", [False, True])
def test_softmax_attention_supports_attention_masks(fused):
    """With a causal mask, each output equals that of the last token of a truncated sequence."""
    layer, past = SoftmaxAttention(2, fused=fused), np.tril(np.ones((2, 6, 6), bool))
    last = [to_numpy(layer(X[:, : token + 1]))[:, token] for token in range(1, 6)]
    for masks in (
        dict(use_causal_mask=True),
        dict(attention_mask=past),
        dict(attention_mask=past[:, None]),
        dict(attention_mask=past[0]),
        dict(attention_mask=past[:1]),
        dict(attention_mask=past[:1, None].repeat(2, axis=1)),
        dict(attention_mask=past[:1].tolist()),
        dict(attention_mask=np.ones((2, 6, 6), bool), use_causal_mask=True),
    ):
        assert_close(to_numpy(layer(X, X, **masks))[:, 1:], np.stack(last, axis=1))


@pytest.mark.parametrize("fused", [False, True])
def test_attention_mask_broadcasts_over_queries(fused):
    layer, real = SoftmaxAttention(2, fused=fused), np.arange(6) < [[6], [4]]
    expected = to_numpy(layer(X, mask=real))
    for mask in (real[:, None], real[:, None, None]):
        assert_close(to_numpy(layer(X, attention_mask=mask)), expected)


@pytest.mark.parametrize("name", ["csp", "softmax attention"])
def test_butterfly_block_supports_same_calls(name):
    x = np.concatenate([X, X[:, :2]], axis=1)
    layer = ButterflyBlock(LAYERS[name](), 2)
    alone = to_numpy(layer(x))
    for outputs in (layer(x, x), layer(x, x, x), layer(query=x, value=x, use_causal_mask=False)):
        np.testing.assert_array_equal(to_numpy(outputs), alone)
    for message, arguments in (
        ("`value` must be", dict(value=x + 1)),
        ("`use_causal_mask` must be False", dict(use_causal_mask=True)),
    ):
        with pytest.raises(TypeError, match=message):
            layer(x, **arguments)
    with pytest.raises(ValueError, match=r"`mask` must have the shape .*mask.shape=\(2, 5\)"):
        layer(x, mask=np.ones((2, 5), bool))
