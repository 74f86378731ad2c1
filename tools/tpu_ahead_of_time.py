"""Compile permutations for a TPU on a machine without one."""

from functools import partial

import jax
from jax.experimental import topologies
from jax.sharding import SingleDeviceSharding

from keras_permix.ops.backend.jax import tpu_permute

WAYS = ("tpu_pallas", "tpu_xla")  # in order of preference
PACKAGES = ("jax", "libtpu")


def chip(topology):
    """Return the sharding for one chip of a topology of libtpu, such as "v5e:2x2"."""
    chips = topologies.get_topology_desc(platform="tpu", topology_name=topology)
    return SingleDeviceSharding(chips.devices[0])


def compile_permutation(way, name, shape, dtype, group_size, chip):
    """Compile one of the six permutation functions.

    Args:
        way: One of `WAYS`.
        name: "shift", "sort_pairs", "unsort_pairs", "sort", "sort_with_positions" or "unsort".
        shape: (samples, tokens, channels).
        dtype: "float32" or "bfloat16", of the numbers whose bits are permuted.
        group_size: Tokens per sorted group.
        chip: The result of `chip`.
    """
    function, operands = _program(way, name, shape, dtype, group_size)
    specs = [jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=chip) for x in operands]
    return jax.jit(function).lower(*specs).compile()


def _program(way, name, shape, dtype, size):
    """Return the program and the shapes of its operands."""
    function = (tpu_permute.Pallas() if way == "tpu_pallas" else tpu_permute.in_xla)(name)
    samples, tokens, channels = shape
    bits = jax.ShapeDtypeStruct(shape, "int32" if dtype == "float32" else "int16")
    steps = tuple(step % tokens for step in range(channels))
    if name == "shift":
        return partial(function, steps=steps), [bits]
    if name.endswith("sort_pairs"):
        if name == "sort_pairs":
            return partial(function, steps=steps, floating=True), [bits]
        sort, operands = _program(way, "sort_pairs", shape, dtype, size)
        return partial(function, steps=steps), list(jax.eval_shape(sort, *operands))
    groups = (samples, tokens // size, size, channels)
    options = {} if name == "unsort" else {"floating": True}

    def on_groups(*arrays):
        results = function(*(x.reshape(groups) for x in arrays), **options)
        return jax.tree.map(lambda array: array.reshape(shape), results)

    positions = [jax.ShapeDtypeStruct(shape, "int16")] if name == "unsort" else []
    return on_groups, [bits, *positions]
