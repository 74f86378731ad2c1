"""What XLA runs on TPUs against the oracle: it is plain XLA, so a CPU shows it."""

import keras
import numpy as np
import pytest

from keras_permix.ops.backend.plan import Plan
from tests.backends import value_and_gradient
from tests.oracle import permutations as oracle

pytestmark = pytest.mark.skipif(keras.config.backend() != "jax", reason="of JAX alone")


@pytest.mark.parametrize(
    ("tokens", "steps", "group_size", "align"),
    [
        (13, (1, 2, 12), 1, "independent"),
        (12, (0, 7, 11), 2, "independent"),
        (13, (1, 2, 3), 5, "independent"),
        (12, (1, 2, 3), 4, "reference"),
    ],
)
def test_xla_for_tpu_is_the_oracle(tokens, steps, group_size, align):
    from keras_permix.ops.backend.jax import accelerators

    rng = np.random.default_rng(0)
    x = rng.integers(-3, 4, (2, tokens, 3)).astype("float32")  # with many ties
    cotangent = rng.integers(-8, 9, x.shape).astype("float32")
    plan, way = Plan(steps, group_size, align == "reference"), accelerators.xla_for_tpu
    value, gradient = value_and_gradient(
        lambda x: accelerators.permute(x, None, plan, way=way), x, cotangent
    )
    sources = oracle.csp(x, steps, group_size, align)
    np.testing.assert_array_equal(value, oracle.values(x, sources))
    np.testing.assert_array_equal(gradient, oracle.gradient(cotangent, sources))
