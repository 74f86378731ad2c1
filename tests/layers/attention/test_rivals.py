"""Test efficient alternatives to attention against NumPy."""

from functools import partial

import keras
import numpy as np
import pytest

from keras_permix.layers import (
    ButterflyAttention,
    FourierMixer,
    LinearAttention,
    LinformerAttention,
    LocalAttention,
    PerformerAttention,
)
from tests.backends import value_and_gradient
from tests.harness import assert_close, to_numpy
from tests.oracle import butterfly

X = np.random.default_rng(0).normal(size=(3, 8, 6)).astype("float32")
MASK = np.arange(8) < np.array([[8], [5], [0]])
MASK[1, [0, 4]] = False  # one block (two tokens with stride 4) has no real token
HEAD_DIM = 4


def linear(layer, query, key, value, real):
    query, key = (np.where(x > 0, x + 1, np.exp(x)) for x in (query, key))
    return normalized(query @ key.T * real) @ value


def performer(layer, query, key, value, real):
    query, key = (
        np.exp(x @ layer.directions(HEAD_DIM).T - (x**2).sum(-1, keepdims=True) / 2)
        for x in (query * HEAD_DIM**-0.25, key * HEAD_DIM**-0.25)
    )
    return normalized(query @ key.T * real) @ value


def linformer(layer, query, key, value, real):
    mixers = (to_numpy(mixer)[: len(key)] for mixer in (layer.key_mixer, layer.value_mixer))
    key, value = (
        mixer.T @ (x * real[:, None]) for mixer, x in zip(mixers, (key, value), strict=True)
    )
    return normalized(np.exp(query @ key.T / np.sqrt(HEAD_DIM))) @ value


def blocks(layer, query, key, value, real, order):
    """Attend to the real tokens of each block, or to all of them if none is real."""
    same = np.zeros((len(key), len(key)), bool)
    for start in range(0, len(key), layer.block_size):
        members = order[start : start + layer.block_size]
        seen = [m for m in members if real[m]] or members
        same[np.ix_(members, seen)] = True
    return normalized(np.exp(query @ key.T / np.sqrt(HEAD_DIM)) * same) @ value


def normalized(weights):
    return weights / weights.sum(axis=-1, keepdims=True)


# name -> (layer, reference for one head of one sample)
LAYERS = {
    "linear": (LinearAttention, linear),
    "performer": (partial(PerformerAttention, features=6, seed=1), performer),
    "linformer": (partial(LinformerAttention, mixtures=3), linformer),
    "linformer with max_sequence_length": (
        partial(LinformerAttention, mixtures=3, max_sequence_length=11, use_output_bias=False),
        linformer,
    ),
    "local": (partial(LocalAttention, block_size=3), partial(blocks, order=list(range(8)))),
    "local plain": (
        partial(LocalAttention, block_size=4, fused=False, use_qkv_bias=True, dropout=0.5),
        partial(blocks, order=list(range(8))),
    ),
    "butterfly": (
        partial(ButterflyAttention, block_size=2, layer_index=5, num_layers=6),
        partial(blocks, order=butterfly.order(8, 2, 2)),
    ),
}


def make_layer(name, dtype=None):
    """Return a built layer of two heads with nonzero biases."""
    layer = LAYERS[name][0](num_heads=2, head_dim=HEAD_DIM, dtype=dtype)
    layer.build(X.shape)
    for weight in layer.weights:
        weight.assign(weight + 0.1)
    return layer


def expected(layer, name, inputs, mask=None):
    """Return the expected output in float64."""
    attend = LAYERS[name][1]
    kernel, *bias = (to_numpy(weight).astype("float64") for weight in layer.qkv_dense.weights)
    parts = np.split(inputs @ kernel + sum(bias), 6, axis=-1)  # queries of two heads, keys, values
    reals = np.ones_like(MASK)
    if mask is not None:
        reals = mask | ~mask.any(axis=1, keepdims=True)
        reals = mask if "order" in getattr(attend, "keywords", ()) else reals
    heads = [
        np.stack([attend(layer, *sample) for sample in zip(*parts[head::2], reals, strict=True)])
        for head in (0, 1)
    ]
    kernel, *bias = (to_numpy(weight) for weight in layer.output_dense.weights)
    assert len(bias) == layer.use_output_bias
    return np.concatenate(heads, axis=-1) @ kernel + sum(bias)


@pytest.mark.parametrize("name", LAYERS)
def test_layer_matches_numpy(name):
    """Masks are tested in `tests/layers/test_blind.py`."""
    layer = make_layer(name)
    assert_close(to_numpy(layer(X)), expected(layer, name, X))


@pytest.mark.skipif(keras.config.backend() == "jax", reason="JAX uses float32 by default")
@pytest.mark.parametrize("name", ["linear", "linformer", "local", "butterfly"])
def test_float64_is_kept(name):
    layer = make_layer(name, dtype="float64")
    assert_close(to_numpy(layer(X)), expected(layer, name, X), dtype="float64")


def test_butterfly_attention_default_block_size():
    sizes = [ButterflyAttention().tokens_per_block(tokens) for tokens in (4, 8, 64, 256, 1024)]
    assert sizes == [2, 4, 8, 16, 32]


def test_attention_maps_reproduce_outputs():
    layer = ButterflyAttention(1, 2, layer_index=1, num_layers=2, use_output_projection=False)
    outputs = to_numpy(layer(X, mask=MASK))
    maps = to_numpy(layer.attention_maps(X, mask=MASK))
    assert maps.shape == (3, 4, 1, 2, 2)
    values = to_numpy(layer.split_heads(X)[2])[:, butterfly.order(8, 2, 1), 0]
    blocks = np.einsum("bkqm,bkmd->bkqd", maps[:, :, 0], values.reshape(3, 4, 2, 6))
    assert_close(outputs[:, butterfly.order(8, 2, 1)], blocks.reshape(X.shape))


@pytest.mark.parametrize("head_dim", [4, 6])
def test_directions_are_orthogonal_and_estimate_softmax(head_dim):
    many = PerformerAttention(features=30_000).directions(head_dim).astype("float64")
    products = many[:head_dim] @ many[:head_dim].T
    assert_close(products, np.diag(np.diag(products)))
    x, y = np.random.default_rng(1).normal(size=(2, head_dim)) / 2
    features = (np.exp(many @ v - v @ v / 2) for v in (x, y))
    estimate = np.mean(np.prod(list(features), axis=0))
    assert estimate == pytest.approx(np.exp(x @ y), rel=0.03)


@pytest.mark.parametrize("masked", [False, True])
def test_fourier_mixer_matches_numpy(masked):
    wanted = np.fft.fft2(X * MASK[..., None] if masked else X).real
    assert_close(to_numpy(FourierMixer()(X, mask=MASK if masked else None)), wanted)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: LocalAttention(block_size=0), "`block_size` must be a positive.*block_size=0"),
        (
            lambda: LocalAttention(2, None).tokens_per_block(None),
            "`block_size` must be set.*None",
        ),
        (lambda: ButterflyAttention(2, 3)(X), "`block` must divide the size.*size=8, block=3"),
        (lambda: ButterflyAttention(2, layer_index=2, num_layers=2), "`layer_index`.*2"),
        (lambda: LinformerAttention(mixtures=0), "`mixtures` must be a positive.*mixtures=0"),
        (
            lambda: LinformerAttention(2).build((2, None, 6)),
            "`max_sequence_length` must be set.*None",
        ),
        (
            lambda: LinformerAttention(2, max_sequence_length=7)(X),
            "must be at most 7. Received: 8 tokens",
        ),
        (lambda: PerformerAttention(features=0), "`features` must be a positive.*features=0"),
        (lambda: PerformerAttention(seed=-1), "`seed` must be.*seed=-1"),
        (lambda: FourierMixer(dropout=1), r"`dropout` must be in \[0, 1\).*1"),
    ],
)
def test_invalid_argument_raises(call, message):
    with pytest.raises(ValueError, match=f"(?s){message}"):
        call()


@pytest.mark.parametrize("dtype", ["float32", "mixed_bfloat16", "mixed_float16"])
@pytest.mark.parametrize("shift", [0, -5, -8, -16, -18, -20, -60, -300])
@pytest.mark.parametrize("kind", [LinearAttention, PerformerAttention])
def test_gradients_stay_bounded_for_vanishing_features(kind, shift, dtype):
    """`elu(q) + 1` rounds to 0 long before its gradient does."""
    keras.utils.set_random_seed(0)
    x = np.random.default_rng(0).normal(size=(2, 6, 4)).astype("float32")
    gradients = []
    for parts in (slice(4), slice(8)):  # queries; queries and keys
        layer = kind(num_heads=1, use_qkv_bias=True, dtype=dtype)
        layer.build(x.shape)
        bias = np.zeros(12, "float32")
        bias[parts] = shift
        layer.qkv_dense.bias.assign(bias)
        output, gradient = map(to_numpy, value_and_gradient(layer, x, np.ones_like(x)))
        assert np.isfinite(output.astype("float32")).all()
        gradients.append(gradient.astype("float32"))
    assert np.abs(gradients).max() < 1000
