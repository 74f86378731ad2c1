"""Test implementations, dtypes and errors of `dense`.

Gradients are tested with the `Dense` layer.
"""

import keras
import numpy as np
import pytest

from keras_permix import ops
from tests.harness import assert_close, needs_cpu, to_numpy

X = np.random.default_rng(0).normal(size=(2, 5, 6)).astype("float32")
KERNEL = np.random.default_rng(1).normal(size=(6, 4)).astype("float32")
BIAS = np.arange(4, dtype="float32")


def supported(x):
    """Return the names of implementations that support `x`."""
    objections = ops.explain("dense", x, KERNEL).objections
    return [name for name, objection in objections.items() if not objection]


@pytest.mark.parametrize("x", [X, X[0], X[None], X[:0]], ids=lambda x: str(x.shape))
def test_values_match_numpy(x):
    for name in supported(x):
        outputs = ops.dense(x, KERNEL, BIAS, implementation=name)
        assert_close(to_numpy(outputs), x @ KERNEL + BIAS)
        assert_close(to_numpy(ops.dense(x, KERNEL, implementation=name)), x @ KERNEL)


@pytest.mark.skipif(keras.config.backend() == "jax", reason="JAX has no float64 without a flag")
def test_float64_is_preserved():
    x, kernel = X.astype("float64"), KERNEL.astype("float64")
    for name in supported(x):
        outputs = to_numpy(ops.dense(x, kernel, implementation=name))
        assert_close(outputs, x @ kernel, "float64")


def test_kernel_of_different_dtype():
    x = X.astype("float16")
    for name in supported(x):
        assert_close(to_numpy(ops.dense(x, KERNEL, BIAS, implementation=name)), x @ KERNEL + BIAS)


def test_explain():
    needs_cpu()
    chosen = "flat" if keras.config.backend() == "jax" else "reference"
    assert ops.explain("dense", X, KERNEL, BIAS).chosen == chosen
    half = ops.explain("dense", X.astype("float16"), KERNEL).chosen
    assert half == chosen


def test_symbolic_call():
    inputs = keras.Input((5, 6))
    outputs = ops.dense(inputs, KERNEL, BIAS)
    assert outputs.shape == (None, 5, 4)
    assert_close(keras.Model(inputs, outputs).predict(X, verbose=0), X @ KERNEL + BIAS)


@pytest.mark.parametrize("arrays", [(X, KERNEL.T), (X, KERNEL, BIAS[1:]), (X, KERNEL, BIAS[:1])])
def test_wrong_shapes_raise(arrays):
    with pytest.raises(
        ValueError, match="(?s)`x`, `kernel` and `bias` must fit.*Received: shapes="
    ):
        ops.dense(*arrays)
