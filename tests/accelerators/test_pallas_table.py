"""Test which implementation JAX selects for each device."""

from dataclasses import replace
from importlib.util import find_spec

import keras
import numpy as np
import pytest

from keras_permix import ops
from keras_permix.ops.backend.plan import PERMUTING
from tests.accelerators.chips import CHIPS
from tests.zoo.models import tiny

pytestmark = pytest.mark.skipif(keras.config.backend() != "jax", reason="JAX runs Pallas's kernels")

OPS = {
    "channel_shift": ((0,) * 4,),
    "csp": ((0,) * 4, 2),
    "group_sort": (2,),
    "slice_sort": (),
}
NOT_DIVISIBLE = "it requires a batch size divisible by the 4 shards of `keras.distribution`"


@pytest.fixture
def here(monkeypatch):
    """Return a function that sets the detected device. jax-triton counts as installed."""
    from keras_permix.ops.backend.jax import implementations

    monkeypatch.setattr("keras_permix.ops.backend.jax.runtime.JAX", (0, 0))
    monkeypatch.setattr(
        implementations,
        "IMPLEMENTATIONS",
        tuple(replace(row, requires=None) for row in implementations.IMPLEMENTATIONS),
    )

    def here(chip, *facts):
        hardware = CHIPS[chip].hardware(*facts)
        monkeypatch.setattr("keras_permix.ops.backend.jax.runtime.hardware", lambda x: hardware)

    return here


@pytest.mark.parametrize(
    ("tokens", "device", "chosen"),
    [
        (256, ["v5e"], "tpu_pallas"),
        (16384, ["v5e"], "tpu_pallas"),
        (2 * 16411, ["v5e"], "tpu_xla"),
        (256, ["v5e", 4], "tpu_pallas"),
        (256, ["v5e", 4, True, NOT_DIVISIBLE], "tpu_xla"),
        (16384, ["H200"], "triton"),
        (256, ["A100", 2], "triton"),
        (256, ["A100", 2, True, NOT_DIVISIBLE], "native"),
        (256, ["T4"], "native"),
        (256, ["MI300X"], "native"),
    ],
)
def test_the_table_chooses(tokens, device, chosen, here):
    here(*device)
    x = keras.ops.zeros((1, tokens, 4))
    for name, arguments in OPS.items():
        assert ops.explain(name, x, *arguments).chosen == chosen


@pytest.mark.parametrize("chip", ["A100", "v5e"])
@pytest.mark.parametrize("name", OPS)
def test_export_with_dynamic_batch_uses_no_kernels(chip, name, here):
    """Export a symbolic batch size, which the static grid of a kernel does not support."""
    import jax
    from jax import export

    here(chip)
    (batch,) = export.symbolic_shape("batch")
    function = jax.jit(lambda x: getattr(ops, name)(x, *OPS[name]))
    program = export.export(function)(jax.ShapeDtypeStruct((batch, 256, 4), "float32"))
    x = np.random.default_rng(0).normal(size=(3, 256, 4)).astype("float32")
    wanted = getattr(ops, name)(x, *OPS[name], implementation="reference")
    np.testing.assert_array_equal(program.call(x), wanted)


def test_gpu_kernels_require_jax_0_11(here, monkeypatch):
    here("A100")
    monkeypatch.setattr("keras_permix.ops.backend.jax.runtime.JAX", (99, 0))
    found = ops.explain("slice_sort", keras.ops.zeros((1, 8, 4)))
    assert found.chosen == "native"
    assert "it requires JAX 0.11" in found.objections["triton"]


@pytest.mark.parametrize("arguments", [{"mask": np.ones((1, 8))}, {"group_size": 3}])
def test_gpu_kernels_support_masks_and_short_groups(arguments, here):
    here("A100")
    x = keras.ops.zeros((1, 8, 4))
    assert ops.explain("group_sort", x, ragged=True, **arguments).chosen == "triton"


def test_cpu_uses_native_implementation():
    x = keras.ops.zeros((1, 8, 4))
    assert {ops.explain(name, x, *given).chosen for name, given in OPS.items()} == {"native"}


@pytest.mark.parametrize(
    ("implementation", "device", "objection"),
    [
        ("triton", ["T4"], "compute capability 8.0, found a Tesla T4 (7.5)"),
        ("triton", ["MI300X"], "NVIDIA GPU .*, found a AMD Instinct MI300X (gfx942)"),
        ("triton", ["A100", 4, True, NOT_DIVISIBLE], NOT_DIVISIBLE),
        ("tpu_pallas", ["v5e", 4, True, NOT_DIVISIBLE], NOT_DIVISIBLE),
    ],
)
def test_kernel_objections(implementation, device, objection, here):
    here(*device)
    found = ops.explain("slice_sort", keras.ops.zeros((1, 8, 4))).objections[implementation]
    assert all(part in found for part in objection.split(".*"))


def test_tpu_v4_sorts_with_xla(here):
    here("v4")
    x = keras.ops.zeros((1, 256, 4))
    sorts = {"slice_sort": (), "group_sort": (4,), "csp": ((0,) * 4, 4)}
    for name, arguments in sorts.items():
        explanation = ops.explain(name, x, *arguments)
        assert explanation.chosen == "tpu_xla"
        assert (
            "requires a TPU v5 or newer to sort, found a TPU v4"
            in explanation.objections["tpu_pallas"]
        )
    for name, arguments in {"channel_shift": ((0,) * 4,), "csp": ((0,) * 4, 2)}.items():
        assert ops.explain(name, x, *arguments).chosen == "tpu_pallas"
    longer = ops.explain("channel_shift", keras.ops.zeros((1, 8192, 4)), (0,) * 4)
    assert longer.chosen == "tpu_xla" and "4096 tokens" in longer.objections["tpu_pallas"]


def test_tpu_kernels_split_long_samples(here):
    here("v5e")
    x = keras.ops.zeros((1, 65536, 4))
    for name, arguments in OPS.items():
        chosen = "tpu_xla" if name == "slice_sort" else "tpu_pallas"
        assert ops.explain(name, x, *arguments).chosen == chosen
    objection = ops.explain("slice_sort", x).objections["tpu_pallas"]
    assert objection == "it supports groups of at most 16384 tokens"
    masked = ops.explain("channel_shift", x[:, :8192], (0,) * 4, mask=np.ones((1, 8192)))
    assert masked.chosen == "native"
    assert masked.objections["tpu_pallas"] == "it supports masks of at most 4096 tokens"


@pytest.mark.parametrize("class_name", ["LRATransformer", "SliceGraphormer"])
@pytest.mark.parametrize(("chip", "kernels"), [("A100", "triton"), ("v5e", "tpu_pallas")])
def test_padded_models_use_kernels(class_name, chip, kernels, here, monkeypatch):
    from keras_permix.ops.backend.jax import implementations
    from keras_permix.ops.backend.jax.permute import permute

    here(chip)
    served = set()

    def noted(row):
        def function(x, mask, plan):
            served.add((row.name, mask is not None))
            return permute(x, mask, plan)

        return replace(row, function=function) if row.op in PERMUTING else row

    monkeypatch.setattr(
        implementations, "IMPLEMENTATIONS", tuple(map(noted, implementations.IMPLEMENTATIONS))
    )
    model = tiny(class_name)
    model(model.make_inputs(seed=0, batch=3))
    assert served == {(kernels, True)}


def test_explain_reports_choice_on_other_platforms(here):
    x = keras.ops.zeros((1, 8, 4))
    for sure, expected in ((True, None), (False, "native")):
        here("v5e", 1, sure)
        explanation = ops.explain("slice_sort", x)
        assert (explanation.chosen, explanation.elsewhere) == ("tpu_pallas", expected)
        assert ("on other platforms: native" in str(explanation)) is not sure


JAX_TRITON = pytest.mark.skipif(not find_spec("jax_triton"), reason="jax-triton is not installed")


@pytest.mark.parametrize("chip", [pytest.param("A100", marks=JAX_TRITON), "v5e"])
def test_program_for_other_platform_runs_on_cpu(chip, here):
    """Run on the CPU of a machine that has an accelerator, and export for CPUs."""
    import jax
    import numpy as np

    here(chip, 1, False)
    x = np.random.default_rng(0).normal(size=(2, 8, 4)).astype("float32")
    function = jax.jit(jax.value_and_grad(lambda x: (ops.slice_sort(x)[:, -1] ** 2).sum()))
    assert "tpu_custom_call" not in function.lower(x).as_text()
    np.testing.assert_array_equal(jax.jit(ops.slice_sort)(x), np.sort(x, axis=1))
    largest = np.where(x == x.max(axis=1, keepdims=True), 2 * x, 0)
    np.testing.assert_array_equal(function(x)[1], largest)
    exported = jax.export.export(jax.jit(ops.slice_sort))(x)
    np.testing.assert_array_equal(exported.call(x), np.sort(x, axis=1))


def test_gpu_kernels_support_groups_up_to_16384(here):
    here("A100")
    x = keras.ops.zeros((1, 32768, 4))
    for group_size, chosen in ((16384, "triton"), (32768, "native")):
        assert ops.explain("csp", x, (0,) * 4, group_size).chosen == chosen
    assert ops.explain("slice_sort", x).chosen == "native"
