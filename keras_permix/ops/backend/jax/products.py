"""Dense layers and Sinkhorn's iteration in JAX."""

from jax import lax

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


@reference.sinkhorn_by
def sinkhorn(function, value, times):
    return lax.fori_loop(0, times, lambda _, value: function(value), value)
