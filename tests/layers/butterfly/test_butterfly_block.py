"""Test ButterflyBlock against the authors' values and NumPy, around attention and other layers."""

import re
from functools import partial

import keras
import numpy as np
import pytest

from keras_permix.layers import CSP, ButterflyBlock, RandomOrder, SoftmaxAttention
from tests.harness import assert_close, functional, load_golden, to_numpy
from tests.layers.butterfly.golden import golden_host, host
from tests.oracle import butterfly as oracle

GOLDEN = load_golden("butterfly_attention")
RNG = np.random.default_rng(0)
X = RNG.normal(size=(3, 16, 8)).astype("float32")
MASK = RNG.random((3, 16)) < 0.7
MASK[0, [1, 5, 9, 13]] = False  # a block of stage 1 without a real token


def test_butterfly_vit_matches_authors():
    hidden = GOLDEN["x"].astype("float32")
    attention = ButterflyBlock(golden_host(GOLDEN, 0).mixer, 4, stage=0)
    assert_close(to_numpy(attention(hidden)), GOLDEN["block_attention"])
    for layer, name in enumerate(("first_layer", "out")):
        block = ButterflyBlock(golden_host(GOLDEN, layer), 4, stage=layer)
        members = to_numpy(block.cut(np.arange(16.0)[None, :, None]))[..., 0]
        np.testing.assert_array_equal(np.diff(members), np.full((4, 3), GOLDEN["strides"][layer]))
        hidden = block(hidden)
        assert_close(to_numpy(hidden), GOLDEN[name])


def transformer(block):
    """Return the host in float64, as a function of (tokens, channels) and an attention mask."""
    w = {weight.path: weight.numpy().astype("float64") for weight in block.weights}
    w = {"/".join(path.split("/")[-2:]): value for path, value in w.items()}
    qkv = zip(
        np.split(w["qkv/kernel"], 3, axis=-1), np.split(w["qkv/bias"], 3, axis=-1), strict=True
    )
    projections = (*qkv, (w["output/kernel"], w["output/bias"]))
    norm = {
        name: lambda x, name=name: oracle.layer_norm(x, w[f"{name}/gamma"], w[f"{name}/beta"])
        for name in ("mixer_norm", "mlp_norm")
    }

    def attend(x, mask):
        return oracle.attend(x, *projections, mask)

    def mlp(x):
        hidden = oracle.gelu(x @ w["mlp_in/kernel"] + w["mlp_in/bias"])
        return hidden @ w["mlp_out/kernel"] + w["mlp_out/bias"]

    def pre_norm(x, mask):
        x = x + attend(norm["mixer_norm"](x), mask)
        return x + mlp(norm["mlp_norm"](x))

    def post_norm(x, mask):
        x = norm["mixer_norm"](x + attend(x, mask))
        return norm["mlp_norm"](x + mlp(x))

    return pre_norm if block.norm_first else post_norm


def expected(block, stage, mask=None, inputs=X):
    """Return the expected output of a butterfly of `block`, one block of one sample at a time."""
    function, out = transformer(block), np.empty(inputs.shape)
    members = np.reshape(oracle.order(inputs.shape[1], 4, stage), (-1, 4))
    for sample in range(len(inputs)):
        for tokens in members:
            allowed = np.ones((2, 4, 4), bool)
            if mask is not None:
                allowed = allowed & mask[sample, tokens]
            out[sample, tokens] = function(inputs[sample, tokens].astype("float64"), allowed)
    return out


@pytest.mark.parametrize("fused", [True, False])
@pytest.mark.parametrize("mask", [None, MASK], ids=["", "masked"])
@pytest.mark.parametrize("stage", [0, 1])
@pytest.mark.parametrize("norm_first", [True, False])
def test_pre_norm_and_post_norm_match_numpy(norm_first, stage, mask, fused):
    """Padded tokens match, too: queries without keys attend as if nothing were masked."""
    block = host(norm_first, fused=fused)
    layer = ButterflyBlock(block, 4, stage)
    layer.build(X.shape)
    for weight in layer.weights:
        weight.assign(weight + 0.1 * RNG.normal(size=weight.shape))
    outputs = to_numpy(layer(X, mask=mask))
    assert_close(outputs, expected(block, stage, mask))


def test_stages_repeat():
    block = host()
    outputs = [to_numpy(ButterflyBlock(block, 4, stage)(X)) for stage in range(4)]
    np.testing.assert_array_equal(outputs[0], outputs[2])
    np.testing.assert_array_equal(outputs[1], outputs[3])
    assert not np.allclose(outputs[0], outputs[1])


@pytest.mark.parametrize("attention", ["MultiHeadAttention", "GroupQueryAttention"])
@pytest.mark.parametrize("masked", [False, True])
def test_keras_attention_within_blocks(attention, masked):
    make = {
        "MultiHeadAttention": partial(keras.layers.MultiHeadAttention, 2, 4),
        "GroupQueryAttention": partial(keras.layers.GroupQueryAttention, 4, 2, 1),
    }[attention]
    layer = ButterflyBlock(make(), 4, stage=1)
    outputs = to_numpy(layer(X, mask=MASK if masked else None))
    order = oracle.order(16, 4, 1)
    for start in range(0, 16, 4):
        tokens = order[start : start + 4]
        real = MASK[:, tokens]
        masks = {"value_mask": real | ~real.any(axis=1, keepdims=True)} if masked else {}
        assert_close(outputs[:, tokens], to_numpy(layer.block(X[:, tokens], X[:, tokens], **masks)))


@pytest.mark.parametrize("heads", [1, 2])
def test_attention_mask_of_blocks(heads):
    allowed = RNG.random((3, 4, heads, 4, 4)) < 0.6
    block = host()
    layer = ButterflyBlock(block, 4, stage=1)
    outputs, function = to_numpy(layer(X, attention_mask=allowed)), transformer(block)
    for sample in range(3):
        for index, tokens in enumerate(np.reshape(oracle.order(16, 4, 1), (-1, 4))):
            sees = allowed[sample, index] | ~allowed[sample, index].any(axis=-1, keepdims=True)
            wanted = function(X[sample, tokens].astype("float64"), np.broadcast_to(sees, (2, 4, 4)))
            assert_close(outputs[sample, tokens], wanted)
    for wrong in (allowed[:, :, 0], allowed[:, :1]):
        shape = re.escape(str(wrong.shape))
        with pytest.raises(ValueError, match=f"`attention_mask` must.*{shape}, blocks=4, n=4"):
            layer(X, attention_mask=wrong)


@pytest.mark.parametrize("mask", [None, MASK], ids=["plain", "masked"])
def test_last_axis_splits_channels_into_blocks(mask):
    """On the last axis, each block has all tokens and `block_size` channels."""
    layer = ButterflyBlock(SoftmaxAttention(2), 4, stage=1, axis=-1)
    outputs = to_numpy(layer(X, mask=mask))
    for channels in ([0, 2, 4, 6], [1, 3, 5, 7]):
        assert_close(outputs[..., channels], to_numpy(layer.block(X[..., channels], mask=mask)))


def test_negative_axis_cuts_tokens_and_mask():
    attention = SoftmaxAttention(2)
    wanted = to_numpy(ButterflyBlock(attention, 4, stage=1)(X, mask=MASK))
    layer = ButterflyBlock(attention, 4, stage=1, axis=-2)
    np.testing.assert_array_equal(to_numpy(layer(X, mask=MASK)), wanted)
    assert layer.get_config()["axis"] == -2


def test_any_axis_and_output_width():
    images = RNG.normal(size=(2, 6, 8, 5)).astype("float32")
    layer = ButterflyBlock(keras.layers.Conv2D(7, 3, padding="same"), 4, stage=1, axis=2)
    outputs = to_numpy(layer(images))
    assert layer.compute_output_shape((None, 6, None, 5)) == (None, 6, None, 7)
    for columns in (np.s_[::2], np.s_[1::2]):
        assert_close(outputs[:, :, columns], to_numpy(layer.block(images[:, :, columns])))


def test_mixers_and_models_as_blocks():
    model = keras.Sequential([keras.layers.Dense(8, "gelu"), keras.layers.Dense(8)])
    for block in (CSP(), model):
        layer = ButterflyBlock(block, 4, stage=1)
        outputs = to_numpy(layer(X))
        assert_close(outputs[:, 1::4], to_numpy(block(X[:, 1::4])))


def test_outputs_have_dtype_of_outer_layer():
    model = functional(ButterflyBlock(SoftmaxAttention(2), 4, dtype="mixed_bfloat16"), (16, 8))
    for outputs in (model.output, model(X)):
        assert keras.backend.standardize_dtype(outputs.dtype) == "bfloat16"


@pytest.mark.parametrize("stage", [0, 1, 2, 3])
def test_layer_supports_any_divisible_length(stage):
    """From the second length on, TensorFlow traces for any. Stages depend on the length."""
    block = host()
    model = functional(ButterflyBlock(block, 4, stage), (None, 8))
    for tokens, stages in ((16, 2), (64, 3), (8, 2), (4, 1)):
        inputs = np.random.default_rng(0).normal(size=(2, tokens, 8)).astype("float32")
        wanted = expected(block, stage % stages, inputs=inputs)
        assert_close(model.predict(inputs, verbose=0), wanted)


def test_random_order_is_shared_by_all_samples():
    layer = RandomOrder(seed=3)
    positions = to_numpy(layer(np.broadcast_to(np.arange(16.0)[:, None], (2, 16, 3))))[0, :, 0]
    assert sorted(positions) == list(range(16)) != positions.tolist()
    assert layer.order(16).tolist() == positions.tolist() != RandomOrder(4).order(16).tolist()
    np.testing.assert_array_equal(to_numpy(layer(X)), X[:, positions.astype(int)])
    np.testing.assert_array_equal(
        to_numpy(layer.compute_mask(X, keras.ops.convert_to_tensor(MASK))),
        MASK[:, positions.astype(int)],
    )


def test_random_order_permutes_mask():
    inputs = keras.Input((16, 8))
    ordered = RandomOrder(seed=3)(keras.layers.Masking()(inputs))
    model = keras.Model(inputs, ButterflyBlock(SoftmaxAttention(2), 4)(ordered))
    order, mask = RandomOrder(seed=3).order(16), MASK[:, RandomOrder(seed=3).order(16)]
    wanted = to_numpy(model.layers[-1](X[:, order], mask=mask))
    outputs = model.predict(X * MASK[..., None], verbose=0)
    assert_close(outputs[mask], wanted[mask])


def around(block=None, *arguments, **named):
    return ButterflyBlock(block or SoftmaxAttention(2), *arguments, **named)(X)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: around(None, 1), "`block_size` must be an integer of at least 2.*1"),
        (lambda: around(None, 3), "`block` must divide the size.*size=16, block=3"),
        (lambda: around(None, 4, -1), "`stage` must be an integer of at least 0.*-1"),
        (lambda: around(None, 4, axis=0), "`axis` must be an axis .* batch.*axis=0"),
        (lambda: around(None, 4, axis=3), "`axis` must be an axis of the input.*axis=3"),
        (lambda: around(None, 4, axis=-3), "`axis` must be an axis of the input.*axis=-3"),
        (lambda: RandomOrder(-1), "`seed` must be.*-1"),
        (lambda: RandomOrder().order(None), "known number of tokens. Received: tokens=None"),
        (lambda: RandomOrder()(X[0]), r"expected ndim=3, found ndim=2.*\(16, 8\)"),
    ],
)
def test_invalid_argument_raises(call, message):
    with pytest.raises(ValueError, match=f"(?s){message}"):
        call()


def test_stage_error_reports_size_block_and_stage():
    with pytest.raises(ValueError, match="(?s)size=24, block=4, stage=1"):
        ButterflyBlock(SoftmaxAttention(2), 4)(np.zeros((2, 24, 8), "float32"))
