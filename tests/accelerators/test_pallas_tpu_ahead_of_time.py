"""Pallas's kernels for TPU as libtpu compiles them, for TPUs that are not there. Nothing runs."""

import importlib.util
import re

import keras
import pytest

from keras_permix import ops

pytestmark = [
    pytest.mark.ahead_of_time,
    pytest.mark.skipif(keras.config.backend() != "jax", reason="JAX runs Pallas's kernels"),
    pytest.mark.skipif(not importlib.util.find_spec("libtpu"), reason="libtpu is not installed"),
]

TOPOLOGIES = ("v5e:2x2", "v6e:2x2")
STEPS = tuple(range(192))
# function -> (tokens, kernels of the value, kernels of value and gradient)
CASES = {
    "shift": (lambda x: ops.channel_shift(x, STEPS), 196, {"shift"}, {"shift"}),
    "pairs": (
        lambda x: ops.csp(x, STEPS, 2),
        196,
        {"sort_pairs"},
        {"sort_pairs", "unsort_pairs"},
    ),
    "pairs of 4096": (
        lambda x: ops.csp(x, STEPS, 2),
        4096,
        {"sort_pairs"},
        {"sort_pairs", "unsort_pairs"},
    ),
    "shifted groups": (
        lambda x: ops.csp(x, STEPS, 49),
        196,
        {"shift", "sort"},
        {"shift", "sort_with_places", "unsort"},
    ),
    "one group": (ops.group_sort, 256, {"sort"}, {"sort_with_places", "unsort"}),
    "one group of 4096": (ops.group_sort, 4096, {"sort"}, {"sort_with_places", "unsort"}),
    "downwards": (
        lambda x: ops.slice_sort(x, True),
        256,
        {"sort"},
        {"sort_with_places", "unsort"},
    ),
    "by XLA": (lambda x: ops.csp(x, STEPS, 2), 8192, set(), set()),
    "one group by XLA": (ops.group_sort, 8192, set(), set()),
}


@pytest.fixture(params=TOPOLOGIES)
def topology(request, monkeypatch):
    """Devices that are not there, which the ops take for the present ones."""
    monkeypatch.setenv("TPU_WORKER_HOSTNAMES", "localhost")
    monkeypatch.setenv("TPU_ACCELERATOR_TYPE", "v5litepod-4")
    monkeypatch.setenv("ALLOW_MULTIPLE_LIBTPU_LOAD", "1")
    monkeypatch.setattr("keras_permix.ops.backend.jax.rows.device", lambda x: ("tpu", 1))
    from jax.experimental import topologies

    return topologies.get_topology_desc(platform="tpu", topology_name=request.param)


def program(function, shape, dtype, sharding):
    """The text of `function` as compiled for the devices of `sharding`."""
    import jax

    x = jax.ShapeDtypeStruct(shape, dtype, sharding=sharding)
    return jax.jit(function).lower(x).compile().as_text()


def kernels_of(text):
    """The kernels that a compiled program calls; Mosaic's custom calls and no others."""
    calls = [line for line in text.splitlines() if 'custom_call_target="tpu_custom_call"' in line]
    return {name for line in calls for name in re.findall(r"permix_([a-z_]+)", line)}


def with_gradient(function):
    import jax

    def both(x):
        value, pull = jax.vjp(function, x)
        return value, pull(x)

    return both


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("case", CASES)
def test_kernels_compile(case, dtype, topology):
    from jax.sharding import SingleDeviceSharding

    function, tokens, *kernels = CASES[case]
    sharding = SingleDeviceSharding(topology.devices[0])
    for compiled, expected in zip((function, with_gradient(function)), kernels, strict=True):
        text = program(compiled, (2, tokens, len(STEPS)), dtype, sharding)
        assert kernels_of(text) == expected
        assert not re.search(r" (gather|scatter)\(", text)


def test_several_devices_are_served_by_xla(topology, monkeypatch):
    import jax
    import numpy as np
    from jax.sharding import Mesh, NamedSharding, PartitionSpec

    monkeypatch.setattr("keras_permix.ops.backend.jax.rows.device", lambda x: ("tpu", 4))
    mesh = Mesh(np.array(topology.devices), ("batch",))
    sharding = NamedSharding(mesh, PartitionSpec("batch"))
    for function in (lambda x: ops.csp(x, STEPS, 2), ops.group_sort):
        text = program(with_gradient(function), (8, 64, len(STEPS)), "float32", sharding)
        assert not re.search(r"all-gather|all-to-all| gather\(", text)
        assert not kernels_of(text)
    assert jax.default_backend() == "cpu"
