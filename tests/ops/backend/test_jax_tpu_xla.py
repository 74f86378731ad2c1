"""Test the XLA implementation for TPUs against the NumPy oracle, on a CPU."""

import keras
import numpy as np
import pytest

from keras_permix import ops
from keras_permix.ops.backend.plan import Hardware
from tests.backends import value_and_gradient
from tests.harness import to_numpy
from tests.oracle import permutations as oracle

pytestmark = pytest.mark.skipif(keras.config.backend() != "jax", reason="requires JAX")

MANY = tuple(range(24))
LARGE, LONG = (2, 64, 24), (1, 1024, 4)
# name -> (shape, op, function from tokens to the source positions of the oracle)
CASES = {
    "pairs": (LARGE, lambda t: ops.csp(t, MANY, 2), lambda x: oracle.csp(x, MANY, 2)),
    "groups of 16": (LARGE, lambda t: ops.csp(t, MANY, 16), lambda x: oracle.csp(x, MANY, 16)),
    "shift": (LARGE, lambda t: ops.channel_shift(t, MANY), lambda x: oracle.csp(x, MANY, 1)),
    "sort": (LARGE, ops.slice_sort, oracle.slice_sort),
    "sort of 1024": (LONG, ops.slice_sort, oracle.slice_sort),
    "sort descending": (
        LARGE, lambda t: ops.slice_sort(t, True), lambda x: oracle.slice_sort(x, True)
    ),
    "13 tokens": (
        (2, 13, 3),
        lambda t: ops.channel_shift(t, (1, 2, 12)),
        lambda x: oracle.csp(x, (1, 2, 12), 1),
    ),
    "12 tokens in pairs": (
        (2, 12, 3), lambda t: ops.csp(t, (0, 7, 11), 2), lambda x: oracle.csp(x, (0, 7, 11), 2)
    ),
    "13 tokens in groups of 5": (
        (2, 13, 3),
        lambda t: ops.csp(t, (1, 2, 3), 5, ragged=True),
        lambda x: oracle.csp(x, (1, 2, 3), 5),
    ),
    "12 tokens aligned": (
        (2, 12, 3),
        lambda t: ops.csp(t, (1, 2, 3), 4, align="reference"),
        lambda x: oracle.csp(x, (1, 2, 3), 4, "reference"),
    ),
}  # fmt: skip


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("case", CASES)
def test_tpu_xla_matches_oracle(case, dtype, monkeypatch):
    monkeypatch.setattr("keras_permix.ops.backend.jax.runtime.hardware", lambda x: Hardware("tpu"))
    monkeypatch.setattr("keras_permix.ops.dispatch.dispatch.FORCED", "tpu_xla")
    (shape, function, sources), rng = CASES[case], np.random.default_rng(0)
    if dtype == "float32" and shape in (LARGE, LONG):
        x = rng.normal(size=shape).astype("float32")
    else:  # many ties, and exact in bfloat16
        x = rng.integers(-3, 4, shape).astype("float32")
    cotangent = rng.integers(-8, 9, shape).astype("float32")
    value, gradient = value_and_gradient(
        function, keras.ops.convert_to_tensor(x, dtype), keras.ops.cast(cotangent, dtype)
    )
    assert keras.backend.standardize_dtype(value.dtype) == dtype
    np.testing.assert_array_equal(to_numpy(value), oracle.values(x, sources(x)))
    np.testing.assert_array_equal(to_numpy(gradient), oracle.gradient(cotangent, sources(x)))
