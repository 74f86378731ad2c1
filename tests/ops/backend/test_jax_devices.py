"""Test ops on several JAX devices and in exports with symbolic shapes."""

import json
import subprocess
import sys

import keras
import numpy as np
import pytest

from keras_permix import ops
from keras_permix.ops.dispatch.dispatch import EXPLAIN
from tests.export.ways import skip_if_tensorflow_cannot_read_jax
from tests.harness import ROOT, assert_close
from tests.harness.processes import environment
from tests.oracle import attention, mega
from tests.oracle import permutations as oracle

pytestmark = pytest.mark.skipif(keras.config.backend() != "jax", reason="requires JAX")


def test_export_causal_attention_with_symbolic_length():
    import jax
    from jax import export

    def attend(x):
        x = x.reshape(*x.shape[:2], 1, 3)
        return ops.simple_attention(x, x, x, causal=True)

    sizes = export.symbolic_shape("batch, tokens")
    program = export.export(jax.jit(attend))(jax.ShapeDtypeStruct((*sizes, 3), "float32"))
    x = np.random.default_rng(0).normal(size=(2, 70, 3)).astype("float32")
    wanted = attention.simple_attention(*[x[:, :, None]] * 3, causal=True)
    assert_close(program.call(x), wanted)


def test_explicit_mesh_of_one_device():
    import jax

    x = np.random.default_rng(0).normal(size=(2, 8, 3)).astype("float32")
    axes = (jax.sharding.AxisType.Explicit,)
    mesh = jax.make_mesh((1,), ("batch",), devices=jax.devices()[:1], axis_types=axes)
    with jax.set_mesh(mesh):
        divided = jax.device_put(x, jax.sharding.PartitionSpec("batch"))
        gradient = jax.jit(jax.grad(lambda x: (ops.group_sort(x, 4) ** 2).sum()))(divided)
    np.testing.assert_allclose(gradient, 2 * x)


def test_sharded_batch_needs_no_collectives():
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


# Keras and JAX use deprecated APIs.
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("group_size", [1, 2, 4])
def test_tf_saved_model_with_dynamic_batch(tmp_path, group_size):
    tf = pytest.importorskip("tensorflow")
    skip_if_tensorflow_cannot_read_jax()
    steps, inputs = (3, -1, 0), keras.Input((8, 3))
    model = keras.Model(inputs, ops.csp(inputs, steps, group_size))
    model.export(str(tmp_path / "model"), format="tf_saved_model", verbose=False)
    served = tf.saved_model.load(str(tmp_path / "model"))
    for batch in (1, 3):
        x = np.random.default_rng(0).normal(size=(batch, 8, 3)).astype("float32")
        expected = oracle.values(x, oracle.csp(x, steps, group_size))
        np.testing.assert_array_equal(served.serve(x), expected)


@pytest.mark.parametrize("group_size", [1, 2, 4])
def test_export_masked_gradient_with_symbolic_batch(group_size):
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


STEPS = (3, -(10**12), 2)
OF_ANY_LENGTH = {
    "shift": (
        lambda x, mask, **how: ops.channel_shift(x, STEPS, mask=mask, **how),
        lambda x, mask: oracle.csp(x, STEPS, 1, mask=mask),
    ),
    "sort": (
        lambda x, mask, **how: ops.slice_sort(x, (False, True, False), mask=mask, **how),
        lambda x, mask: oracle.slice_sort(x, np.array([False, True, False]), mask=mask),
    ),
    "exchange": (
        lambda x, mask, **how: ops.max_exchange(x, mask=mask, **how),
        lambda x, mask: oracle.max_exchange(x, mask=mask),
    ),
    **{
        f"groups of {size}, {align}": (
            lambda x, mask, size=size, align=align, **how: ops.csp(
                x, STEPS, size, align=align, ragged=True, mask=mask, **how
            ),
            lambda x, mask, size=size, align=align: oracle.csp(
                x, STEPS, size, align=align, mask=mask
            ),
        )
        for size in (2, 3, None)
        for align in ("independent", "reference")
    },
}


def test_export_damped_ema_with_symbolic_length():
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


@pytest.mark.parametrize(
    ("masked", "dtype"), [(False, "float32"), (True, "bfloat16")], ids=["unmasked", "masked"]
)
@pytest.mark.parametrize("op", OF_ANY_LENGTH)
def test_export_with_symbolic_length(op, masked, dtype):
    """Export the native implementation and its gradient."""
    import jax
    from jax import export

    function, expected = OF_ANY_LENGTH[op]
    explained = []

    def traced(x, mask, cotangent):
        mask = mask if masked else None
        explained.append(function(x, mask, implementation=EXPLAIN).chosen)
        out, gradient = jax.vjp(lambda x: function(x, mask), x)
        return out, *gradient(cotangent)

    sizes = export.symbolic_shape("batch, tokens")
    x = jax.ShapeDtypeStruct((*sizes, 3), dtype)
    program = export.export(jax.jit(traced))(x, jax.ShapeDtypeStruct(sizes, "bool"), x)
    assert explained == ["native"]
    for tokens in (1, 11):
        rng = np.random.default_rng(tokens)
        x, cotangent = rng.integers(-4, 5, (2, 2, tokens, 3)).astype(dtype)
        mask = rng.random((2, tokens)) < 0.6
        source = expected(x, mask if masked else None)
        out, gradient = map(np.asarray, program.call(x, mask, cotangent))
        np.testing.assert_array_equal(out, oracle.values(x, source))
        np.testing.assert_array_equal(gradient, oracle.gradient(cotangent, source))
