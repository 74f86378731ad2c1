"""How XLA for a single CPU is told what to compute one by one, and what to keep apart."""

import jax
from jax import lax

from keras_permix.ops.backend.jax.hardware import devices_of_program


def alone_on_cpu():
    """Whether XLA compiles for one CPU, with nothing to divide."""
    return [device.platform for device in devices_of_program()] == ["cpu"]


def each(function, *arrays):
    """Apply to each sample; on one CPU one by one, so that it stays in the cache."""
    if not alone_on_cpu():
        return jax.vmap(function)(*arrays)
    return lax.map(lambda entries: function(*entries), arrays)


def apart(function, x):
    """Call a function of the whole batch, and fuse nothing with it.

    XLA for CPUs fuses a gather with what comes after, and gathers again for each of the uses. A
    conditional is an edge that it keeps; `lax.optimization_barrier` is not. Both branches are the
    same. The condition depends on one sample, for which several devices would have to wait.
    """
    if not alone_on_cpu():
        return function(x)
    first_is_positive = (x[(slice(1),) * x.ndim] > 0).any()
    return lax.cond(first_is_positive, function, function, x)
