"""Test butterfly permutations against the authors' tables and NumPy, on all axes."""

import keras
import numpy as np
import pytest

from keras_permix import ops
from tests.backends import compiled, value_and_gradient
from tests.harness import load_golden, to_numpy
from tests.oracle import butterfly as oracle

GOLDEN = load_golden("butterfly_mlp")
TABLES = [name.removeprefix("perm_") for name in GOLDEN if name.startswith("perm_")]
DTYPES = ("float32", "float16", "bfloat16", "int32", "bool")
SIZES = [(8, 2), (8, 4), (8, 8), (12, 4), (27, 3), (32, 4), (64, 8), (20, 10), (64, 16)]


@pytest.mark.parametrize("name", TABLES)
def test_orders_match_authors(name):
    size, block = map(int, name.split("_"))
    strides = GOLDEN[f"strides_{name}"]
    assert ops.butterfly_stages(size, block) == len(strides)
    for stage, (stride, positions) in enumerate(zip(strides, GOLDEN[f"perm_{name}"], strict=True)):
        permuted = to_numpy(ops.butterfly_permute(np.arange(size), block, stage, axis=0))
        np.testing.assert_array_equal(permuted, positions)
        assert permuted[1] - permuted[0] == stride  # within a block
        assert oracle.order(size, block, stage) == positions.tolist()


@pytest.mark.parametrize(("size", "block"), SIZES)
def test_stages_are_necessary_and_sufficient(size, block):
    count = ops.butterfly_stages(size, block)
    assert block**count >= size > block ** (count - 1)
    reached = [{n} for n in range(size)]
    for stage in range(count):
        blocks = np.reshape(oracle.order(size, block, stage), (-1, block))
        assert min(map(len, reached)) < size
        mixed = {
            n: set.union(*(reached[m] for m in members)) for members in blocks for n in members
        }
        reached = [mixed[n] for n in range(size)]
    assert all(len(inputs) == size for inputs in reached)


def test_number_of_stages_is_exact():
    """Rounding up the quotient of logarithms would return 4 for size 125 and block 5."""
    assert ops.butterfly_stages(125, 5) == 3
    assert ops.butterfly_stages(3**20, 3) == 20


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("axis", [0, 1, 2, -1])
def test_any_axis_and_dtype(axis, dtype):
    x = np.random.default_rng(0).integers(-9, 9, (12, 12, 12))
    tensor = keras.ops.convert_to_tensor(x, dtype)
    for stage in range(3):
        permuted = ops.butterfly_permute(tensor, 4, stage, axis=axis)
        assert permuted.dtype == tensor.dtype
        wanted = np.take(to_numpy(tensor), oracle.order(12, 4, stage), axis=axis)
        np.testing.assert_array_equal(to_numpy(permuted), wanted)
        back = ops.butterfly_unpermute(permuted, 4, stage, axis=axis)
        np.testing.assert_array_equal(to_numpy(back), to_numpy(tensor))


def test_gradient_applies_the_inverse():
    rng = np.random.default_rng(0)
    x, cotangent = (rng.normal(size=(2, 8, 3)).astype("float32") for _ in range(2))
    _, gradient = value_and_gradient(lambda t: ops.butterfly_permute(t, 4, 1, axis=1), x, cotangent)
    wanted = np.empty_like(x)
    wanted[:, oracle.order(8, 4, 1)] = cotangent
    np.testing.assert_array_equal(to_numpy(gradient), wanted)


@pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")
def test_compiled():
    x = np.random.default_rng(0).normal(size=(2, 8, 3)).astype("float32")
    permute = compiled(lambda t: ops.butterfly_permute(t, 4, 1, axis=1))
    wanted = x[:, oracle.order(8, 4, 1)]
    np.testing.assert_array_equal(to_numpy(permute(keras.ops.convert_to_tensor(x))), wanted)


def test_symbolic_calls_of_any_length():
    inputs = keras.Input((None, 3))
    model = keras.Model(inputs, ops.butterfly_permute(inputs, 4, 1, axis=1))
    assert model.output_shape == (None, None, 3)
    for size in (4, 8, 16, 48):
        x = np.random.default_rng(0).normal(size=(2, size, 3)).astype("float32")
        wanted = x[:, oracle.order(size, 4, 1)]
        np.testing.assert_array_equal(model.predict(x, verbose=0), wanted)


def test_explain_chooses_reference():
    x = np.zeros((2, 8, 3), "float32")
    assert ops.explain("butterfly_permute", x, 2, 1, axis=1).chosen == "reference"
    assert ops.explain(ops.butterfly_unpermute, x, 2, 1, axis=1).chosen == "reference"


@pytest.mark.parametrize(
    ("size", "block", "stage", "message"),
    [
        (8, 1, 0, "`block` must be an integer of at least 2.*block=1"),
        (8, 3, 0, "`block` must divide the size.*size=8, block=3"),
        (8, 16, 0, "`block` must divide the size.*size=8, block=16"),
        (24, 4, 1, r"must divide the size.*size=24, block=4, stage=1"),
        (12, 2, 2, r"must divide the size.*size=12, block=2, stage=2"),
        (8, 2, -1, "`stage` must be an integer of at least 0.*-1"),
    ],
)
def test_wrong_argument_raises(size, block, stage, message):
    for op in (ops.butterfly_permute, ops.butterfly_unpermute):
        with pytest.raises(ValueError, match=f"(?s){message}"):
            op(np.zeros(size), block, stage, axis=0)
    if stage >= 0:
        with pytest.raises(ValueError, match=f"(?s){message}"):
            ops.butterfly_stages(size, block)


@pytest.mark.parametrize("axis", [1, -2, 0.5])
def test_wrong_axis_raises(axis):
    with pytest.raises(ValueError, match=rf"`axis` must be one of `x`.*axis={axis}, shape=\(8,\)"):
        ops.butterfly_permute(np.zeros(8), 2, 0, axis=axis)


def test_non_integer_size_raises():
    with pytest.raises(ValueError, match="`size` must be a positive integer.*size=8.0"):
        ops.butterfly_stages(8.0, 2)
