"""`dense`, the product that all projections are made of: which way it takes, and what it refuses.

Its values and gradients are tested as the layer's.
"""

import keras
import numpy as np
import pytest

from keras_permix import ops
from tests.harness import assert_close, needs_cpu, to_numpy

X = np.random.default_rng(0).normal(size=(2, 5, 6)).astype("float32")
KERNEL = np.random.default_rng(1).normal(size=(6, 4)).astype("float32")
BIAS = np.arange(4, dtype="float32")


def ways(x):
    objections = ops.explain("dense", x, KERNEL).objections
    return [name for name, objection in objections.items() if not objection]


@pytest.mark.parametrize("x", [X, X[0], X[None], X[:0]], ids=lambda x: str(x.shape))
def test_every_way_gives_the_values_of_numpy(x):
    for way in ways(x):
        outputs = ops.dense(x, KERNEL, BIAS, implementation=way)
        assert_close(to_numpy(outputs), x @ KERNEL + BIAS)
        assert_close(to_numpy(ops.dense(x, KERNEL, implementation=way)), x @ KERNEL)


@pytest.mark.skipif(keras.config.backend() == "jax", reason="JAX has no float64 without a flag")
def test_float64_stays():
    x, kernel = X.astype("float64"), KERNEL.astype("float64")
    for way in ways(x):
        outputs = to_numpy(ops.dense(x, kernel, implementation=way))
        np.testing.assert_allclose(outputs, x @ kernel, rtol=1e-12)


def test_kernel_of_another_dtype():
    x = X.astype("float16")
    for way in ways(x):
        assert_close(to_numpy(ops.dense(x, KERNEL, BIAS, implementation=way)), x @ KERNEL + BIAS)


def test_explain_knows_it():
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


@pytest.mark.parametrize("arrays", [(X[0, 0], KERNEL), (X, KERNEL.T), (X, KERNEL, BIAS[1:])])
def test_wrong_shapes_are_named(arrays):
    with pytest.raises(ValueError, match="(?s)`x`, `kernel` and `bias` must have.*Received: x.sh"):
        ops.dense(*arrays)
