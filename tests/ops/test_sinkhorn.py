"""Test `sinkhorn` and `sinkhorn_csp` against NumPy, golden values and `csp`."""

import keras
import numpy as np
import pytest

from keras_permix import ops
from tests.backends import compiled, value_and_gradient
from tests.harness import assert_close, load_golden, to_numpy
from tests.oracle import attention as oracle

ANALYSIS, CSP = load_golden("analysis"), load_golden("csp_ops")
X = np.random.default_rng(0).normal(size=(2, 12, 4)).astype("float32")
MASK = np.random.default_rng(1).random((2, 12)) < 0.7
STEPS = (3, 5, -1, 14)


@pytest.mark.parametrize(
    ("name", "iterations", "temperature"),
    [
        ("sinkhorn_t3_tau1", 3, 1.0),
        ("sinkhorn_t50_tau05", 50, 0.5),
        ("sinkhorn_t20000_tau005", 500, 0.05),  # converges much earlier
    ],
)
def test_values_match_golden(name, iterations, temperature):
    scores = ANALYSIS["sinkhorn_in"].astype("float32")
    assert_close(to_numpy(ops.sinkhorn(scores, iterations, temperature)), ANALYSIS[name])


@pytest.mark.parametrize("compiling", [False, True])
def test_values_and_gradients_match_numpy(compiling):
    """XLA can differentiate a loop only if its number of iterations is known."""
    if compiling and keras.config.backend() == "torch":
        pytest.skip("torch.compile does not support functions that compute gradients")
    rng = np.random.default_rng(0)
    scores, direction, cotangent = rng.normal(size=(3, 2, 3, 5, 5))

    def both(scores):
        weights = cotangent.astype("float32")
        return value_and_gradient(lambda t: ops.sinkhorn(t, 40, 0.5), scores, weights)

    call = compiled(both) if compiling else both
    value, gradient = call(keras.ops.convert_to_tensor(scores, "float32"))
    assert_close(to_numpy(value), oracle.sinkhorn(scores, 40, 0.5))
    change = oracle.change(lambda t: oracle.sinkhorn(t, 40, 0.5), scores, direction, cotangent)
    assert_close(np.sum(to_numpy(gradient) * direction), change)


def test_scores_of_minus_infinity_get_zero_weight():
    scores = np.zeros((4, 4), "float32")
    scores[:2, 2:] = scores[2:, :2] = -np.inf
    value, gradient = value_and_gradient(lambda t: ops.sinkhorn(t, 5), scores, np.eye(4))
    assert_close(to_numpy(value), np.kron(np.eye(2), np.full((2, 2), 0.5)))
    assert np.isfinite(to_numpy(gradient)).all()


@pytest.mark.parametrize("group_size", [1, 3, 4, None])
@pytest.mark.parametrize("mask", [None, MASK, MASK & [[True], [False]]], ids=str)
def test_sinkhorn_csp_values_and_gradients_match_numpy(group_size, mask):
    """Compare converged results, which do not depend on the initial scores."""
    x, (direction, cotangent) = X / 2, np.random.default_rng(2).normal(size=(2, *X.shape))
    value, gradient = value_and_gradient(
        lambda t: ops.sinkhorn_csp(t, STEPS, group_size, iterations=60, mask=mask), x, cotangent
    )

    def expected(x):
        return oracle.sinkhorn_csp(x, STEPS, group_size, 200, 1.0, mask)

    assert_close(to_numpy(value), expected(x))
    change = oracle.change(expected, x, direction, cotangent)
    assert_close(np.sum(to_numpy(gradient) * direction), change)


def test_ragged_last_group():
    soft = ops.sinkhorn_csp(X / 2, STEPS, 5, iterations=60, ragged=True)
    assert_close(to_numpy(soft), oracle.sinkhorn_csp(X / 2, STEPS, 5, 200, 1.0))


@pytest.mark.parametrize("group_size", [2, 5, None])
@pytest.mark.parametrize("mask", [None, MASK], ids=["unmasked", "masked"])
def test_single_channel_is_unchanged(group_size, mask):
    result = ops.sinkhorn_csp(X[..., :1], (3,), group_size, ragged=True, mask=mask)
    real = np.ones_like(MASK) if mask is None else mask
    np.testing.assert_array_equal(to_numpy(result), np.where(real[..., None], X[..., :1], 0))


@pytest.mark.parametrize(
    ("name", "steps", "group_size"),
    [
        ("reference_G2", "shifts", 2),
        ("reference_G4", "shifts", 4),
        ("reference_complete", None, None),
    ],
)
def test_low_temperature_converges_to_csp(name, steps, group_size):
    """Without the dual potentials of the sorted order, this would take thousands of iterations."""
    v = CSP["v"].astype("float32")
    steps = CSP[steps] if steps else np.zeros(v.shape[2], int)
    errors = []
    for temperature in (1.0, 0.1, 0.01, 0.001, 0.0001):
        soft = ops.sinkhorn_csp(v, steps, group_size, iterations=50, temperature=temperature)
        errors.append(np.abs(to_numpy(soft) - CSP[name]).max())
    assert errors == sorted(errors, reverse=True)
    assert_close(to_numpy(soft), CSP[name], kind="limit")


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_low_precision_is_computed_in_float32(dtype):
    x = keras.ops.cast(X * 200, dtype)  # products overflow float16
    soft = ops.sinkhorn_csp(x, STEPS, 4, temperature=1e-3)
    assert keras.backend.standardize_dtype(soft.dtype) == dtype
    hard = ops.csp(x, STEPS, 4, align="reference")
    assert_close(to_numpy(soft), to_numpy(hard), dtype)


def test_symbolic_calls():
    inputs, mask = keras.Input((None, 4)), keras.Input((None,), dtype="bool")
    outputs = ops.sinkhorn_csp(inputs, STEPS, 3, iterations=60, ragged=True, mask=mask)
    model = keras.Model([inputs, mask], outputs)
    for tokens in (12, 7):
        x, marks = X[:, :tokens] / 2, MASK[:, :tokens]
        expected = oracle.sinkhorn_csp(x, STEPS, 3, 200, 1.0, marks)
        assert_close(model.predict([x, marks], verbose=0), expected)
    scores = keras.Input((5, 5))
    model = keras.Model(scores, ops.sinkhorn(scores, 3, 0.5))
    x = np.random.default_rng(0).normal(size=(2, 5, 5)).astype("float32")
    assert_close(model.predict(x, verbose=0), oracle.sinkhorn(x, 3, 0.5))


WRONG = {
    "rank": (lambda: ops.sinkhorn(X[0, 0]), r"`scores` must be floats.*\(4,\)"),
    "square": (lambda: ops.sinkhorn(X), r"`scores` must be floats.*\(2, 12, 4\)"),
    "integers": (lambda: ops.sinkhorn(np.eye(3, dtype=int)), "`scores` must be floats.*int"),
    "iterations": (lambda: ops.sinkhorn(np.eye(3), 0), "`iterations` must be a positive.*0"),
    "temperature": (lambda: ops.sinkhorn(np.eye(3), 1, 0.0), "`temperature` must be .*0.0"),
    "no temperature": (lambda: ops.sinkhorn(np.eye(3), 1, "x"), "`temperature` must be .*'x'"),
    "integer tokens": (lambda: ops.sinkhorn_csp(X.astype(int), STEPS, 2), "`x` must be floating"),
    "group size": (lambda: ops.sinkhorn_csp(X, STEPS, 5), "`group_size` must divide.*group_size=5"),
    "steps": (lambda: ops.sinkhorn_csp(X, (1, 2), 2), "`steps` must .*=2, channels=4"),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_argument_raises(name):
    call, message = WRONG[name]
    with pytest.raises(ValueError, match=f"(?s){message}"):
        call()
