"""Convert numbers to bits, and bits to integers of the same order, in JAX and Pallas."""

import jax.numpy as jnp
from jax import lax


def is_floating(dtype):
    return jnp.issubdtype(dtype, jnp.floating)


def to_bits(x):
    """Return signed integers; unsigned types become signed types that hold all values."""
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
    """Return the bits that `to_key` inverts in negative numbers: for floats all except the sign."""
    return jnp.iinfo(bits.dtype).max if floating else 0


def to_key(bits, mirror):
    """Return integers in the order of the values, -0.0 before 0.0; it is its own inverse."""
    return bits ^ ((bits >> (8 * bits.dtype.itemsize - 1)) & mirror)


def to_ranks(x):
    """Return integers to compare, because XLA treats subnormal floats as zeros."""
    bits = to_bits(x)
    return comparable(bits, mirror(bits, is_floating(x.dtype)))


def comparable(bits, mirror):
    """Return `to_key`, but with -0.0 equal to 0.0, which cannot be inverted."""
    key = to_key(bits, mirror)
    return key + is_minus_zero(key, mirror)


def is_minus_zero(key, mirror):
    """Return 1 for the key of -0.0, which is -1; their sum is 0, the key of 0.0."""
    return ((key == -1) & (mirror > 0)).astype(key.dtype)
