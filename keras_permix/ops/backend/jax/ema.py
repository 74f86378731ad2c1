"""Exponential moving averages in JAX: by chunks, as many channels at once as the cache holds."""

import jax.numpy as jnp
from jax import lax

from keras_permix.ops.backend.jax.single_cpu import alone_on_cpu
from keras_permix.ops.reference import ema

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
