"""JAX on several devices, and exported for a batch of any size."""

import json
import os
import subprocess
import sys

import keras
import numpy as np
import pytest

from keras_permix.layers import CSP
from tests.harness import ROOT

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


@pytest.mark.parametrize("group_size", [1, 2, 4])
def test_export_for_any_batch(tmp_path, group_size):
    """As a program of TensorFlow, whose batch is unknown."""
    tf = pytest.importorskip("tensorflow")
    inputs = keras.Input((8, 6))
    model = keras.Model(inputs, CSP(group_size=group_size)(inputs))
    model.export(str(tmp_path / "model"), format="tf_saved_model", verbose=False)
    served = tf.saved_model.load(str(tmp_path / "model"))
    for batch in (1, 3):
        x = np.random.default_rng(0).normal(size=(batch, 8, 6)).astype("float32")
        np.testing.assert_allclose(served.serve(x), model(x), rtol=1e-6, atol=1e-6)
