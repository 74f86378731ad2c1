"""Test programs that libtpu compiles for a batch sharded over four TPUs."""

import importlib.util
import math
import re

import keras
import pytest

from keras_permix import ops
from keras_permix.zoo import CSPViT
from tests.accelerators.tpu_ahead import (
    CUSTOM_CALL,
    EXCHANGES,
    batch,
    kernels_of,
    program,
    train_step,
    with_gradient,
)

pytestmark = [
    pytest.mark.ahead_of_time,
    pytest.mark.skipif(keras.config.backend() != "jax", reason="JAX runs Pallas's kernels"),
    pytest.mark.skipif(not importlib.util.find_spec("libtpu"), reason="libtpu is not installed"),
]

STEPS = tuple(range(192))
SHAPE = (8, 196, 192)
FUNCTIONS = {
    "pairs": (lambda x: ops.csp(x, STEPS, 2), {"sort_pairs", "unsort_pairs"}),
    "shifted groups": (
        lambda x: ops.csp(x, STEPS, 49),
        {"shift", "sort_with_positions", "unsort"},
    ),
}
MODEL = dict(image_size=32, patch_size=4, num_classes=10, hidden_dim=128, num_layers=2, mlp_dim=128)
GROUPS_BY_XLA = {"49 of 196": (SHAPE, 49), "4 of 256": ((8, 256, 192), 4)}


@pytest.mark.parametrize("case", FUNCTIONS)
def test_devices_call_kernels_on_batch_shards(case, distribution):
    function, kernels = FUNCTIONS[case]
    with distribution.scope():
        text = program(
            with_gradient(function), SHAPE, "float32", batch(distribution, "batch")
        ).as_text()
    assert kernels_of(text) == kernels
    assert "s32[2,196,192]" in text and "[8,196,192]" not in text  # two of the eight samples
    assert not re.search(f"{EXCHANGES}|all-reduce", text)


@pytest.mark.parametrize("size", [1, 2, 49])
def test_masked_batch_needs_no_communication(size, distribution):
    function = with_gradient(lambda x: ops.csp(x, STEPS, size, mask=x[..., 0] > 0))
    with distribution.scope():
        text = program(function, SHAPE, "float32", batch(distribution, "batch")).as_text()
    assert not re.search(f"{EXCHANGES}|all-reduce", text)


def test_indivisible_batch_falls_back_to_xla(distribution):
    explanations = []

    def function(x):
        explanations.append(ops.explain("csp", x, STEPS, 2))
        return ops.csp(x, STEPS, 2)

    with distribution.scope():
        compiled = program(function, (6, *SHAPE[1:]), "float32", batch(distribution))
    assert not kernels_of(compiled.as_text())
    assert explanations[0].chosen == "tpu_xla"
    assert "divisible by the 4 shards of" in explanations[0].objections["tpu_pallas"]


@pytest.mark.parametrize("case", GROUPS_BY_XLA)
def test_xla_sort_memory_is_bounded(case, one_device, monkeypatch):
    monkeypatch.setattr("keras_permix.ops.dispatch.dispatch.FORCED", "tpu_xla")
    shape, size = GROUPS_BY_XLA[case]
    function = with_gradient(lambda x: ops.group_sort(x, size))
    compiled = program(function, shape, "float32", one_device)
    assert not kernels_of(compiled.as_text())
    assert compiled.memory_analysis().temp_size_in_bytes < 4 * 4 * math.prod(shape)


def test_train_step_exchanges_only_gradients(distribution):
    model = CSPViT(**MODEL, dtype="mixed_bfloat16")
    text = train_step(model, 64, distribution).as_text()
    called = [line for line in text.splitlines() if "permix_" in line and CUSTOM_CALL in line]
    assert kernels_of(text) == {"sort_pairs", "unsort_pairs"}
    assert len(called) == 2 * MODEL["num_layers"]
    assert "all-reduce" in text
    assert not re.search(EXCHANGES, text)
