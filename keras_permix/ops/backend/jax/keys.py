"""Numbers as bits, and bits as integers of the same order, in JAX and in Pallas's kernels."""

import jax.numpy as jnp
from jax import lax


def is_floating(dtype):
    return jnp.issubdtype(dtype, jnp.floating)


def to_bits(x):
    """Signed integers; an unsigned type becomes one that holds all its values."""
    if is_floating(x.dtype):
        return lax.bitcast_convert_type(x, f"int{8 * x.dtype.itemsize}")
    if jnp.issubdtype(x.dtype, jnp.unsignedinteger):
        return x.astype(f"int{16 * x.dtype.itemsize}")
    return x


def from_bits(bits, dtype):
    if is_floating(dtype):
        return lax.bitcast_convert_type(bits, dtype)
    return bits.astype(dtype)


def mirror(bits, floating):
    """Return the bits that `to_key` inverts in negative numbers: for floats all but the sign."""
    return jnp.iinfo(bits.dtype).max if floating else 0


def to_key(bits, mirror):
    """Integers in the order of the values, -0.0 before 0.0; from keys to bits it is the same."""
    return bits ^ ((bits >> (8 * bits.dtype.itemsize - 1)) & mirror)


def is_minus_zero(key, mirror):
    """1 for the key of -0.0, -1, which is to equal that of 0.0."""
    return ((key == -1) & (mirror > 0)).astype(key.dtype)
