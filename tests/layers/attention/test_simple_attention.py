"""Test SimpleAttention against golden values and NumPy, and its errors."""

import numpy as np
import pytest

from keras_permix.layers import SimpleAttention, SoftmaxAttention
from tests.harness import assert_close, load_golden, to_numpy
from tests.oracle import attention as oracle

X = np.random.default_rng(0).normal(size=(3, 7, 8)).astype("float32")
MASK = np.arange(7) < np.array([[7], [4], [1]])
GOLDEN = load_golden("simpletron")


def golden_weights(use_output_projection=True):
    """Return the golden weights in the order of the layer's weights."""
    weights = [
        np.concatenate([GOLDEN[f"{name}_{kind}"] for name in "qkv"], axis=-1)
        for kind in ("kernel", "bias")
    ]
    return weights + [GOLDEN["out_kernel"], GOLDEN["out_bias"]] * use_output_projection


@pytest.mark.parametrize("projection", [False, True])
def test_layer_matches_golden_values(projection):
    layer = SimpleAttention(num_heads=2, use_output_projection=projection)
    layer.build(GOLDEN["x"].shape)
    layer.set_weights(golden_weights(projection))
    name = "attention_2heads_proj" if projection else "attention_2heads_noproj"
    assert_close(to_numpy(layer(GOLDEN["x"].astype("float32"))), GOLDEN[name])


def attend(layer, inputs, head_dim, mask):
    """Return the expected output in float64."""
    kernel, *bias = (weight.numpy().astype("float64") for weight in layer.qkv_dense.weights)
    parts = np.split(inputs @ kernel + (bias[0] if bias else 0), 3, axis=-1)
    heads = (part.reshape(*inputs.shape[:2], -1, head_dim) for part in parts)
    attended = oracle.simple_attention(*heads, mask, layer.scale, layer.causal)
    attended = attended.reshape(*inputs.shape[:2], -1)
    if not layer.use_output_projection:
        return attended
    kernel, bias = (weight.numpy() for weight in layer.output_dense.weights)
    return attended @ kernel + bias


CONFIGS = {
    "default": (dict(), 1),
    "wide": (dict(num_heads=3, head_dim=5, use_qkv_bias=False), 5),
    "bare": (dict(num_heads=2, use_output_projection=False), 4),
    "scale valid": (dict(num_heads=2, scale="valid"), 4),
    "unscaled": (dict(num_heads=1, scale=None), 8),
    "causal": (dict(num_heads=2, causal=True), 4),
}


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("name", CONFIGS)
def test_layer_matches_numpy(name, masked):
    arguments, head_dim = CONFIGS[name]
    layer = SimpleAttention(**arguments)
    layer.build(X.shape)
    for weight in layer.weights:
        weight.assign(weight + 0.1)
    mask = MASK if masked else None
    assert_close(to_numpy(layer(X, mask=mask)), attend(layer, X, head_dim, mask))


def test_weights_match_softmax_attention():
    simple, softmax = SimpleAttention(2), SoftmaxAttention(2, use_qkv_bias=True)
    named = []
    for layer in (simple, softmax):
        layer.build(X.shape)
        parts = [layer.qkv_dense, layer.output_dense]
        assert layer.weights == [weight for part in parts for weight in part.weights]
        named.append([(part.name, w.name, w.shape) for part in parts for w in part.weights])
    assert named[0] == named[1]
    simple.set_weights(softmax.get_weights())
    assert_close(to_numpy(simple.qkv_dense(X)), to_numpy(softmax.qkv_dense(X)))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (dict(num_heads=0), "`num_heads` must be a positive integer.*0"),
        (dict(num_heads=3), "`num_heads` must divide.* width 8 .*num_heads=3"),
        (dict(head_dim=1.5), "`head_dim` must be a positive integer.*1.5"),
        (
            dict(head_dim=3, use_output_projection=False),
            r"`num_heads` \* `head_dim` must be the input width.*head_dim=24, width=8",
        ),
        (dict(dropout=2), r"`dropout` must be in \[0, 1\).*2"),
        (dict(scale="depth"), "`scale` must be one of.*'depth'"),
    ],
)
def test_invalid_argument_raises(arguments, message):
    with pytest.raises(ValueError, match=f"(?s){message}"):
        SimpleAttention(**arguments)(X)
