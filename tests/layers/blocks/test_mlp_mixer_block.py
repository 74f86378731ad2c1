"""Test MLPMixerBlock against the authors' values and NumPy, and its errors."""

from functools import partial

import keras
import numpy as np
import pytest

from keras_permix.layers import MLPMixerBlock
from tests.harness import assert_close, check_layer, load_golden, to_numpy
from tests.oracle import butterfly as oracle

GOLDEN = load_golden("mixers")
X = np.random.default_rng(0).normal(size=(2, 16, 9)).astype("float32")


def test_block_matches_authors():
    block = MLPMixerBlock()
    block.build(GOLDEN["mixer_x"].shape)
    block.set_weights([GOLDEN[f"mixer_{name}"] for name in MIXER_WEIGHTS])
    assert_close(to_numpy(block(GOLDEN["mixer_x"].astype("float32"))), GOLDEN["mixer_out"])


# The golden names in the order of the block's weights.
NORMS = [f"ln{index}_{kind}" for index in (0, 1) for kind in ("gamma", "beta")]
MIXER_WEIGHTS = NORMS + [
    f"{axis}_fc{index}_{kind}"
    for axis in ("patch", "channel")
    for index in (1, 2)
    for kind in ("kernel", "bias")
]


def butterfly_mlp(x, layer):
    """Apply a butterfly MLP of two stages, with blocks of 4 for size 16 and 3 for size 9."""
    parts = [
        [*(w.numpy().astype("float64") for w in (*first.weights, *last.weights))]
        for first, last in zip(layer.mlp_in, layer.mlp_out, strict=True)
    ]
    stages = [partial(_mlp_of_blocks, weights=weights) for weights in parts]
    assert len(stages) == 2 and layer.block_size**2 == x.shape[-1]
    return oracle.butterfly(x, layer.block_size, stages)


def _mlp_of_blocks(x, weights):
    kernel_in, bias_in, kernel_out, bias_out = weights
    return oracle.block_dense(
        oracle.gelu(oracle.block_dense(x, kernel_in, bias_in)), kernel_out, bias_out
    )


def butterfly_linear(x, layer):
    weights = [weight.numpy().astype("float64") for weight in layer.weights]
    hidden = oracle.sparse_linear(x, *weights[:3])
    hidden = np.where(hidden > 0, hidden, np.exp(np.minimum(hidden, 0)) - 1)
    return oracle.sparse_linear(hidden, *weights[3:])


@pytest.mark.parametrize("mlp", [butterfly_mlp, butterfly_linear])
@pytest.mark.parametrize("expansion", [1, 3])
def test_butterfly_block_matches_numpy(mlp, expansion):
    block = MLPMixerBlock(mlp.__name__.removesuffix("_mlp"), expansion)
    block.build(X.shape)
    rng = np.random.default_rng(1)
    for weight in block.weights:
        weight.assign(weight + rng.normal(0, 0.1, weight.shape))

    def norm(x, layer):
        return oracle.layer_norm(x, *(weight.numpy() for weight in layer.weights))

    (tokens,), (channels,) = block.token_mlp, block.channel_mlp
    wanted = X.astype("float64")
    mixed = mlp(np.swapaxes(norm(wanted, block.token_norm), 1, 2), tokens)
    wanted = wanted + np.swapaxes(mixed, 1, 2)
    wanted = wanted + mlp(norm(wanted, block.channel_norm), channels)
    assert_close(to_numpy(block(X)), wanted)


@pytest.mark.parametrize("mlp", ["dense", "butterfly", "butterfly_linear"])
def test_block_basics(mlp):
    make, dense = partial(MLPMixerBlock, mlp), mlp == "dense"  # butterflies: test_layers.py
    check_layer(make, (4, 16, 9), numerics=dense, masked=False, any_length=False)


@pytest.mark.parametrize(
    ("size", "block_size"), [(64, 8), (121, 11), (24, 6), (8, 4), (7, 7), (2, 2)]
)
def test_block_size_is_root_or_next_divisor(size, block_size):
    block = MLPMixerBlock("butterfly")
    block.build((None, size, 4))
    assert block.token_mlp[0].block_size == block_size
    assert block.token_mlp[0].stages == (1 if size == block_size else 2)


def built():
    block = MLPMixerBlock("butterfly")
    block.build(X.shape)
    return block


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: MLPMixerBlock("sparse"), "`mlp` must be one of.*'sparse'"),
        (
            lambda: MLPMixerBlock("butterfly", tokens_mlp_dim=8),
            "require mlp='dense'.*mlp='butterfly', tokens_mlp_dim=8, channels_mlp_dim=None",
        ),
        (lambda: MLPMixerBlock(expansion=0), "`expansion` must be a positive integer.*=0"),
        (lambda: MLPMixerBlock()(X[0]), r"must have the shape.*\(16, 9\)"),
        (lambda: MLPMixerBlock()(keras.Input((None, 8))), "tokens must be known.*None, 8"),
        (lambda: built()(X[:, :9]), r"expected axis 1 .*value 16, .*\(2, 9, 9\)"),
        (lambda: MLPMixerBlock("butterfly_linear")(X[:, :8]), "must be a square.*channels=8"),
        (lambda: MLPMixerBlock("butterfly")(X[:, :1]), "`block_size` must be an integer of.*=1"),
    ],
)
def test_invalid_argument_raises(call, message):
    with pytest.raises(ValueError, match=f"(?s){message}"):
        call()
