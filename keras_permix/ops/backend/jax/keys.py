"""Numbers as integers of the same order, in JAX."""

import jax.numpy as jnp
from jax import lax


def to_key(x):
    """Signed integers in the order of the values; -0.0 comes before 0.0."""
    if jnp.issubdtype(x.dtype, jnp.unsignedinteger):
        return x.astype(f"int{8 * x.dtype.itemsize * 2}")
    if jnp.issubdtype(x.dtype, jnp.signedinteger):
        return x
    bits = lax.bitcast_convert_type(x, f"int{8 * x.dtype.itemsize}")
    return _mirror_negatives(bits)


def from_key(key, dtype):
    if jnp.issubdtype(dtype, jnp.integer):
        return key.astype(dtype)
    return lax.bitcast_convert_type(_mirror_negatives(key), dtype)


def is_minus_zero(key, dtype):
    return (key == -1) & jnp.issubdtype(dtype, jnp.floating)


def _mirror_negatives(bits):
    """Floats of the sign bit ascend as their integers descend; the mapping is its own inverse."""
    return bits ^ ((bits >> (8 * bits.dtype.itemsize - 1)) & jnp.iinfo(bits.dtype).max)
