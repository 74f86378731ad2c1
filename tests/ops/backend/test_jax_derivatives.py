"""Test second derivatives, forward mode and `vmap` of permutations on JAX."""

import keras
import numpy as np
import pytest

from keras_permix import ops
from tests.oracle import permutations as oracle

pytestmark = pytest.mark.skipif(keras.config.backend() != "jax", reason="requires JAX")

X = np.random.default_rng(0).integers(-9, 10, (2, 8, 3)).astype("float32")
MASK = np.array([[1, 1, 0, 1, 1, 1, 0, 1], [1, 1, 1, 1, 1, 0, 0, 0]], bool)
STEPS = (3, -1, 2**70 + 5)
CASES = {
    "shift": (lambda x, mask: ops.channel_shift(x, STEPS, mask=mask), oracle.channel_shift, STEPS),
    "pairs": (lambda x, mask: ops.csp(x, STEPS, 2, mask=mask), oracle.csp, STEPS, 2),
    "groups": (lambda x, mask: ops.csp(x, STEPS, 4, mask=mask), oracle.csp, STEPS, 4),
    "sort": (lambda x, mask: ops.slice_sort(x, mask=mask), oracle.slice_sort, False),
    "exchange": (lambda x, mask: ops.max_exchange(x, mask=mask), oracle.max_exchange),
}


@pytest.fixture(params=CASES)
def case(request):
    """Return a function of `x` and `mask`, and one that returns its source positions."""
    function, sources, *arguments = CASES[request.param]
    return function, lambda x, mask: sources(x, *arguments, mask=mask)


@pytest.mark.parametrize("mask", [None, MASK], ids=["unmasked", "masked"])
def test_hessian_vector_products(case, mask):
    """The Hessian of the weighted sum of cubes is diagonal: 6 x times the weight at its target."""
    import jax

    function, sources = case
    weight, vector = np.random.default_rng(1).integers(-3, 4, (2, *X.shape)).astype("float32")
    gradient = jax.grad(lambda x: (function(x, mask) ** 3 * weight).sum())
    expected = 6 * X * vector * oracle.gradient(weight, sources(X, mask))

    @jax.jit
    def products(x):
        forward = jax.jvp(gradient, (x,), (vector,))[1]
        return forward, jax.grad(lambda x: (gradient(x) * vector).sum())(x)

    for product in products(X):
        np.testing.assert_array_equal(product, expected)


def test_tangents_are_permuted_like_values(case):
    import jax

    function, sources = case
    tangent = np.random.default_rng(1).normal(size=X.shape).astype("float32")
    _, moved = jax.jit(lambda x: jax.jvp(lambda x: function(x, MASK), (x,), (tangent,)))(X)
    np.testing.assert_array_equal(moved, oracle.values(tangent, sources(X, MASK)))


def test_vmap(case):
    import jax

    function, sources = case
    many = np.stack([X, -X, X[:, ::-1]])
    cotangent = np.random.default_rng(1).integers(-3, 4, X.shape).astype("float32")

    @jax.jit
    @jax.vmap
    def both(x):
        value, pull = jax.vjp(lambda x: function(x, MASK), x)
        return value, pull(cotangent)[0]

    for x, value, gradient in zip(many, *both(many), strict=True):
        np.testing.assert_array_equal(value, oracle.values(x, sources(x, MASK)))
        np.testing.assert_array_equal(gradient, oracle.gradient(cotangent, sources(x, MASK)))


def test_masked_calls_choose_native():
    x = keras.ops.convert_to_tensor(X)
    for name, arguments in {
        "channel_shift": (STEPS,),
        "csp": (STEPS, 2),
        "group_sort": (2,),
        "slice_sort": (),
        "max_exchange": (),
    }.items():
        assert ops.explain(name, x, *arguments, mask=MASK).chosen == "native"


def test_max_exchange_of_subnormal_numbers():
    x = np.float32([1e-41, 0.0, 3e-41, 2e-41]).reshape(1, 4, 1)
    result = np.asarray(ops.max_exchange(x))
    assert result.tobytes() == oracle.values(x, oracle.max_exchange(x)).tobytes()
