"""JAX on several devices, and exported for a batch of any size."""

import json
import subprocess
import sys

import keras
import numpy as np
import pytest

from keras_permix import ops
from keras_permix.ops.dispatch.explain import EXPLAIN
from tests.harness import ROOT, assert_close
from tests.harness.processes import environment
from tests.oracle import mega
from tests.oracle import permutations as oracle

pytestmark = pytest.mark.skipif(keras.config.backend() != "jax", reason="of JAX alone")


def test_a_divided_batch_stays_divided():
    flags = "--xla_force_host_platform_device_count=8"
    done = subprocess.run(
        [sys.executable, "-m", "tests.ops.backend.jax_divided"],
        cwd=ROOT,
        env=environment(XLA_FLAGS=flags, JAX_PLATFORMS="cpu"),
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    programs = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(programs) == 10
    assert [program for program in programs if program["exchanged"]] == []


# What Keras and JAX deprecate of themselves.
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("group_size", [1, 2, 4])
def test_export_for_any_batch(tmp_path, group_size):
    """As a program of TensorFlow, whose batch is unknown."""
    tf = pytest.importorskip("tensorflow")
    steps, inputs = (3, -1, 0), keras.Input((8, 3))
    model = keras.Model(inputs, ops.csp(inputs, steps, group_size))
    model.export(str(tmp_path / "model"), format="tf_saved_model", verbose=False)
    served = tf.saved_model.load(str(tmp_path / "model"))
    for batch in (1, 3):
        x = np.random.default_rng(0).normal(size=(batch, 8, 3)).astype("float32")
        expected = oracle.values(x, oracle.csp(x, steps, group_size))
        np.testing.assert_array_equal(served.serve(x), expected)


@pytest.mark.parametrize("group_size", [1, 2, 4])
def test_masked_gradients_for_any_batch(group_size):
    import jax
    from jax import export

    def gradient(x, mask, cotangent):
        return jax.vjp(lambda x: ops.csp(x, (3, -1, 2), group_size, mask=mask), x)[1](cotangent)

    batch = export.symbolic_shape("batch")
    x = jax.ShapeDtypeStruct((*batch, 8, 3), "float32")
    program = export.export(jax.jit(gradient))(x, jax.ShapeDtypeStruct((*batch, 8), "bool"), x)
    rng = np.random.default_rng(0)
    x, cotangent = rng.integers(-9, 10, (2, 3, 8, 3)).astype("float32")
    mask = rng.random((3, 8)) < 0.7
    expected = oracle.gradient(cotangent, oracle.csp(x, (3, -1, 2), group_size, mask=mask))
    np.testing.assert_array_equal(program.call(x, mask, cotangent)[0], expected)


STEPS = (3, -1, 2)
OF_ANY_LENGTH = {
    "shift": (
        lambda x, **how: ops.channel_shift(x, STEPS, **how),
        lambda x: oracle.csp(x, STEPS, 1),
    ),
    "sort": (lambda x, **how: ops.slice_sort(x, **how), lambda x: oracle.csp(x, (0, 0, 0), None)),
    "pairs": (lambda x, **how: ops.csp(x, STEPS, 2, **how), lambda x: oracle.csp(x, STEPS, 2)),
}


def test_averages_exported_for_any_number_of_tokens():
    import jax
    from jax import export

    rng = np.random.default_rng(0)
    weights = [rng.normal(size=(3, 4)).astype("float32") for _ in range(4)]
    omega = rng.normal(size=3).astype("float32")
    sizes = export.symbolic_shape("batch, tokens")
    average = jax.jit(lambda x: ops.damped_ema(x, *weights, omega))
    program = export.export(average)(jax.ShapeDtypeStruct((*sizes, 3), "float32"))
    x = rng.normal(size=(2, 70, 3)).astype("float32")
    assert_close(program.call(x), mega.damped_ema(x, *weights, omega), kind="ema")


@pytest.mark.parametrize("op", OF_ANY_LENGTH)
def test_export_for_any_number_of_tokens(op):
    """Which the native rows refuse, as `explain` says, and the reference serves."""
    import jax
    from jax import export

    function, expected = OF_ANY_LENGTH[op]
    explained = []

    def traced(x):
        explained.append(function(x, implementation=EXPLAIN))
        return function(x)

    batch, half = export.symbolic_shape("batch, half")
    program = export.export(jax.jit(traced))(jax.ShapeDtypeStruct((batch, 2 * half, 3), "float32"))
    assert explained[0].chosen == "reference"
    assert explained[0].objections["native"] == "it needs a known number of tokens"
    for tokens in (2, 8, 10):
        x = np.random.default_rng(tokens).normal(size=(2, tokens, 3)).astype("float32")
        np.testing.assert_array_equal(program.call(x), oracle.values(x, expected(x)))
