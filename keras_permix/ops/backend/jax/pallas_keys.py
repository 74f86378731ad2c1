"""Integers that are in the order of the values whose bits they are made of."""

import jax.numpy as jnp


def mirror(bits, floating):
    """What `to_key` turns of negative numbers: of floats, all bits but the sign."""
    return jnp.iinfo(bits.dtype).max if floating else 0


def to_key(bits, mirror):
    """Integers in the order of the values; from keys to bits it is the same."""
    return bits ^ ((bits >> 31) & mirror)


def is_minus_zero(key, mirror):
    """1 for the key of -0.0, -1, which is to equal that of 0.0."""
    return ((key == -1) & (mirror > 0)).astype(jnp.int32)
