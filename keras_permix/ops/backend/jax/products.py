"""Dense layers, moving averages and Sinkhorn's iteration in JAX."""

import jax.numpy as jnp
from jax import lax

from keras_permix.ops.backend.jax.runtime import alone_on_cpu
from keras_permix.ops.reference import ema
from keras_permix.ops.reference import linear as reference


def dense(x, kernel, bias, mask):
    """Compute `x @ kernel + bias` as one matrix product on a CPU; `bias` may be None.

    XLA for CPUs copies and transposes the cotangent of a product with more than two axes, and
    recomputes the whole residual sum within that copy.
    """
    product = reference.dense(x.reshape(-1, x.shape[-1]), kernel, bias, mask)
    return product.reshape(*x.shape[:-1], product.shape[-1])


def limit_of_dense(call):
    """Return why a call does not run on a single CPU, or None if it does."""
    devices = call.hardware.devices
    return None if devices == 1 else f"it needs tokens of one device, and here are {devices}"


CACHED = 1 << 18  # values that may stay in the cache with all that is made of them


@ema.as_implementation
def damped_ema(x, weight, log_decay, omega, truncation):
    """On a CPU take some channels after the others, so that they stay in the cache."""
    batch, tokens, channels = x.shape
    most = max(CACHED // (batch * tokens), 1) if isinstance(batch * tokens, int) else channels
    if most >= channels or not alone_on_cpu():
        return ema.by_chunks(x, weight, log_decay, omega, truncation)
    size = next(size for size in range(most, 0, -1) if channels % size == 0)

    def cut(parameter):
        groups = parameter.reshape(-1, channels // size, size, parameter.shape[1])
        return groups.swapaxes(0, 1).reshape(channels // size, -1, parameter.shape[1])

    groups = jnp.moveaxis(x.reshape(batch, tokens, -1, size), 2, 0)
    averaged = lax.map(
        lambda group: ema.by_chunks(*group, truncation),
        (groups, cut(weight), cut(log_decay), omega.reshape(-1, size)),
    )
    return jnp.moveaxis(averaged, 0, 2).reshape(x.shape)


@reference.sinkhorn_by
def sinkhorn(function, value, times):
    return lax.fori_loop(0, times, lambda _, value: function(value), value)
