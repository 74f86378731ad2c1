"""Programs as libtpu compiles them for TPUs that are not there. They can be read, and not run."""

import re

CUSTOM_CALL = 'custom_call_target="tpu_custom_call"'
EXCHANGES = r"all-gather|all-to-all|collective-permute|reduce-scatter"


def program(function, shape, dtype, sharding):
    """`function` as compiled for the devices of `sharding`."""
    import jax

    x = jax.ShapeDtypeStruct(shape, dtype, sharding=sharding)
    return jax.jit(function).lower(x).compile()


def kernels_of(text):
    """The kernels that a compiled program calls; Mosaic's custom calls and no others."""
    calls = [line for line in text.splitlines() if CUSTOM_CALL in line]
    return {name for line in calls for name in re.findall(r"permix_([a-z_]+)", line)}


def with_gradient(function):
    import jax

    def both(x):
        value, pull = jax.vjp(function, x)
        return value, pull(x)

    return both
