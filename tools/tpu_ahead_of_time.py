"""Compile permutations for a TPU on a machine without one."""

import jax
from jax.experimental import topologies
from jax.sharding import SingleDeviceSharding

from keras_permix.ops.backend.jax import tpu_permute

# The first two in order of preference; the third compiles kernels with a mask.
WAYS = ("tpu_pallas", "tpu_xla", "tpu_pallas_masked")
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
    function = (tpu_permute.in_xla if way == "tpu_xla" else tpu_permute.Pallas())(name)
    samples, tokens, channels = shape
    operands = [jax.ShapeDtypeStruct(shape, "int32" if dtype == "float32" else "int16")]
    options = {} if name.startswith("un") or name == "shift" else {"floating": True}
    masks = {}
    if way == "tpu_pallas_masked":
        masks["lengths"] = jax.ShapeDtypeStruct((samples,), "int32")
    if name == "unsort":
        operands.append(jax.ShapeDtypeStruct(shape, "int16"))
    elif name == "unsort_pairs":
        sort, arrays = _program("tpu_pallas" if masks else way, "sort_pairs", shape, dtype, size)
        operands = list(jax.eval_shape(sort, *arrays))
    if not name.endswith("sort_pairs") and name != "shift":
        groups = (samples, tokens // size, size, channels)
    elif masks:
        groups, masks["steps"] = None, jax.ShapeDtypeStruct((samples, channels), "int32")
    else:
        groups, options["steps"] = None, tuple(step % tokens for step in range(channels))

    def program(*arrays):
        own = dict(zip(masks, arrays[len(operands) :], strict=True))
        arrays = [x.reshape(groups) if groups else x for x in arrays[: len(operands)]]
        results = function(*arrays, **own, **options)
        return jax.tree.map(lambda array: array.reshape(shape), results) if groups else results

    return program, [*operands, *masks.values()]
