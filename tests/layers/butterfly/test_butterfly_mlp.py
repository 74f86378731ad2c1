"""Test block-diagonal and butterfly layers against the authors' values and NumPy."""

import keras
import numpy as np
import pytest

from keras_permix.layers import BlockDense, ButterflyLinear, ButterflyLinearMLP, ButterflyMLP
from tests.harness import assert_close, load_golden, to_numpy
from tests.oracle import butterfly as oracle

GOLDEN = load_golden("butterfly_mlp")
X = np.random.default_rng(0).normal(size=(3, 5, 16)).astype("float32")


def build(layer, shape):
    """Build a layer and assign random weights."""
    layer.build(shape)
    rng = np.random.default_rng(1)
    layer.set_weights([rng.normal(size=weight.shape) for weight in layer.weights])
    return layer


def weights(layer):
    return [weight.numpy().astype("float64") for weight in layer.weights]


def test_block_dense_matches_authors():
    blocks = GOLDEN["bl_x"]  # (blocks, batch, in)
    layer = BlockDense(blocks=4, units=5)
    layer.build((2, 12))
    layer.set_weights([GOLDEN["bl_kernel"], GOLDEN["bl_bias"]])
    outputs = to_numpy(layer(np.concatenate(blocks, axis=-1).astype("float32")))
    assert_close(outputs, np.concatenate(GOLDEN["bl_out"], axis=-1))


def test_block_mlp_matches_authors():
    layers = BlockDense(3, 8, "gelu"), BlockDense(3, 4)
    hidden = GOLDEN["bm_x"].astype("float32")
    for index, layer in enumerate(layers):
        layer.build(hidden.shape)
        layer.set_weights([GOLDEN[f"bm{index}_kernel"], GOLDEN[f"bm{index}_bias"]])
        hidden = to_numpy(layer(hidden))
    assert_close(hidden, GOLDEN["bm_out"])


def test_butterfly_linear_matches_authors():
    layer = ButterflyLinear(4)
    layer.build(GOLDEN["lin_x"].shape)
    layer.set_weights([GOLDEN["lin_w0"], GOLDEN["lin_w1"]])
    assert_close(to_numpy(layer(GOLDEN["lin_x"].astype("float32"))), GOLDEN["lin_out"])


def test_butterfly_mlp_matches_authors():
    layer = ButterflyMLP(4, expansion=2)
    layer.build(GOLDEN["mix_x"].shape)
    for stage in range(2):
        for part, dense in (("fc1", layer.mlp_in[stage]), ("fc2", layer.mlp_out[stage])):
            names = [f"mix{stage}_{part}_{kind}" for kind in ("kernel", "bias")]
            dense.set_weights([GOLDEN[name] for name in names])
    assert_close(to_numpy(layer(GOLDEN["mix_x"].astype("float32"))), GOLDEN["mix_out"])


@pytest.mark.parametrize("use_bias", [True, False])
def test_block_dense_matches_numpy(use_bias):
    layer = build(BlockDense(4, 3, "relu", use_bias), X.shape)
    wanted = np.maximum(oracle.block_dense(X.astype("float64"), *weights(layer)), 0)
    assert layer.compute_output_shape((None, None, 16)) == (None, None, 12)
    assert_close(to_numpy(layer(X)), wanted)


def test_block_dense_supports_channels_first():
    layer = build(BlockDense(4, 3, "gelu", axis=0), (16, 3, 5))
    wanted = oracle.gelu(oracle.block_dense(X.astype("float64"), *weights(layer)))
    outputs = to_numpy(layer(np.moveaxis(X, -1, 0)))
    assert outputs.shape == layer.compute_output_shape((16, 3, 5)) == (12, 3, 5)
    assert_close(np.moveaxis(outputs, 0, -1), wanted)


def softmax(x):
    exponentials = np.exp(x - x.max(axis=-1, keepdims=True))
    return exponentials / exponentials.sum(axis=-1, keepdims=True)


@pytest.mark.parametrize(
    "activation", ["softmax", keras.layers.Softmax(), lambda x: keras.ops.softmax(x)],
    ids=("by name", "a layer", "a function"),
)  # fmt: skip
def test_activation_across_channels(activation):
    for axis, shape in ((-1, X.shape), (0, (16, 3, 5))):
        layer = build(BlockDense(4, 3, activation, axis=axis), shape)
        wanted = softmax(oracle.block_dense(X.astype("float64"), *weights(layer)))
        inputs = X if axis == -1 else np.moveaxis(X, -1, 0)
        assert_close(np.moveaxis(to_numpy(layer(inputs)), axis, -1), wanted)

    layer = build(ButterflyMLP(4, 2, activation), X.shape)
    kernels = weights(layer)
    dense_in, dense_out = ([kernels[i : i + 2] for i in (start, start + 2)] for start in (0, 4))

    def mlp(given, returned):
        return lambda x: oracle.block_dense(softmax(oracle.block_dense(x, *given)), *returned)

    stages = [mlp(*both) for both in zip(dense_in, dense_out, strict=True)]
    assert_close(to_numpy(layer(X)), oracle.butterfly(X.astype("float64"), 4, stages))


@pytest.mark.skipif(keras.config.backend() == "jax", reason="JAX uses float32 by default")
@pytest.mark.parametrize(
    "make",
    [
        lambda: BlockDense(4, 4, use_bias=False, dtype="float64"),
        lambda: BlockDense(4, 4, dtype="float64"),
        lambda: ButterflyLinear(16, dtype="float64"),
    ],
)
def test_float64_is_kept(make):
    layer = build(make(), X.shape)
    x = np.random.default_rng(2).normal(size=X.shape)
    outputs = layer(keras.ops.convert_to_tensor(x, "float64"))
    assert keras.backend.standardize_dtype(outputs.dtype) == "float64"
    assert_close(to_numpy(outputs), oracle.block_dense(x, *weights(layer)), "float64")


def test_masking_requires_channels_last():
    masked = keras.layers.Masking()(X)
    assert BlockDense(4, 3)(masked)._keras_mask.shape == (3, 5)
    assert not BlockDense(4, 3, axis=0).supports_masking


@pytest.mark.skipif(keras.config.backend() != "torch", reason="requires torch.func")
@pytest.mark.parametrize(
    "make", [lambda: BlockDense(4, 4), lambda: ButterflyMLP(4), lambda: ButterflyLinearMLP()]
)
def test_vmap_matches_call(make):
    import torch

    layer = build(make(), X.shape)
    mapped = torch.func.vmap(layer)(torch.from_numpy(X))
    assert_close(to_numpy(mapped), to_numpy(layer(X)))


@pytest.mark.parametrize("block_size", [2, 4, 8, 16])
def test_butterfly_linear_matches_numpy(block_size):
    layer = build(ButterflyLinear(block_size), X.shape)
    stages = [lambda t, k=kernel: oracle.block_dense(t, k) for kernel in weights(layer)]
    assert_close(to_numpy(layer(X)), oracle.butterfly(X.astype("float64"), block_size, stages))


def test_butterfly_linear_starts_as_identity():
    np.testing.assert_array_equal(to_numpy(ButterflyLinear(2)(X)), X)


def test_block_dense_initial_values():
    layer = BlockDense(16, 8)
    layer.build((None, 64))
    kernel = layer.kernel.numpy()
    assert 0.9 < abs(kernel).max() / np.sqrt(6 / (4 + 8)) <= 1
    assert abs(kernel.mean()) < 0.1
    assert len(np.unique(kernel)) > kernel.size / 2


@pytest.mark.parametrize("expansion", [1, 2])
def test_butterfly_linear_mlp_matches_numpy(expansion):
    layer = build(ButterflyLinearMLP(expansion), X.shape)
    weights_in, weights_out = weights(layer)[:3], weights(layer)[3:]
    hidden = oracle.sparse_linear(X.astype("float64"), *weights_in)
    hidden = np.where(hidden > 0, hidden, np.exp(np.minimum(hidden, 0)) - 1)
    assert_close(to_numpy(layer(X)), oracle.sparse_linear(hidden, *weights_out))


@pytest.mark.parametrize("expansion", [1, 2])
def test_parameters_match_table_2(expansion):
    """The table's models are dense except for the MLPs, which mix axes of 64 and 121."""
    around = 7 * 4 * 121 + 49 * 121 + (64 * 121 + 1) * 10
    published = {1: (140_961, 143_551), 2: (193_860, 197_745)}[expansion]
    for make, total in zip((ButterflyLinearMLP, mlp_of_root), published, strict=True):
        for size in (64, 121):
            layer = make(expansion) if make is ButterflyLinearMLP else make(size, expansion)
            layer.build((None, size))
            total -= 7 * layer.count_params()
        assert total == around


def mlp_of_root(size, expansion):
    return ButterflyMLP(int(size**0.5), expansion)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: BlockDense(0, 4), "`blocks` must be a positive integer.*0"),
        (lambda: BlockDense(4, 0), "`units` must be a positive integer.*0"),
        (lambda: BlockDense(3, 4), "`blocks` must divide the number of channels.*blocks=3.*16"),
        (lambda: BlockDense(4, 4, axis=1), "`axis` must be one of .-1, 0..*1"),
        (lambda: BlockDense(4, 4, axis=0.0), "`axis` must be an integer of at least -1.*0.0"),
        (lambda: ButterflyLinear(1), "`block_size` must be an integer of at least 2.*1"),
        (lambda: ButterflyLinear(3), "`block` must divide the size.*size=16, block=3"),
        (lambda: ButterflyMLP(4, expansion=1.5), "`expansion` must be a positive integer.*1.5"),
        (lambda: ButterflyLinearMLP(0), "`expansion` must be a positive integer.*0"),
    ],
)
def test_invalid_argument_raises(make, message):
    with pytest.raises(ValueError, match=f"(?s){message}"):
        make()(X)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: ButterflyMLP(4), "`size` must be a positive integer.*size=0"),
        (lambda: ButterflyLinear(4), "`size` must be a positive integer.*size=0"),
        (lambda: BlockDense(4, 4), "`blocks` must divide the number of channels.*channels=0"),
        (ButterflyLinearMLP, "must be a square.*channels=0"),
    ],
)
def test_zero_channels_raise(make, message):
    with pytest.raises(ValueError, match=message):
        make()(np.zeros((4, 0), "float32"))


def test_invalid_number_of_channels_raises():
    with pytest.raises(ValueError, match="(?s)size=24, block=4, stage=1"):
        ButterflyLinear(4)(np.zeros((2, 24), "float32"))
    with pytest.raises(ValueError, match="(?s)must be a square.*channels=24"):
        ButterflyLinearMLP()(np.zeros((2, 24), "float32"))
