"""JAX on several devices, and exported for a batch of any size."""

import json
import os
import subprocess
import sys

import keras
import numpy as np
import pytest

from keras_permix import ops
from tests.harness import ROOT
from tests.oracle import permutations as oracle

pytestmark = pytest.mark.skipif(keras.config.backend() != "jax", reason="of JAX alone")


def test_a_divided_batch_stays_divided():
    flags = "--xla_force_host_platform_device_count=8"
    done = subprocess.run(
        [sys.executable, "-m", "tests.ops.backend.jax_divided"],
        cwd=ROOT,
        env={**os.environ, "XLA_FLAGS": flags, "JAX_PLATFORMS": "cpu"},
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
