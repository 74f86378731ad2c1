"""SimpleAttention and Sinkhorn in plain NumPy, float64, sharing no code with the package."""

import numpy as np


def simple_attention(query, key, value, mask=None, scale="length", causal=False):
    """The quadratic form, one sample and one head at a time."""
    return np.einsum(
        "bhnm,bmhe->bnhe",
        simple_attention_maps(query, key, mask, scale, causal),
        value.astype("float64"),
    )


def simple_attention_maps(query, key, mask=None, scale="length", causal=False):
    """What every query takes of every value, (batch, heads, tokens, tokens)."""
    batch, tokens, heads, _ = query.shape
    maps = np.zeros((batch, heads, tokens, tokens))
    for b, h, n in np.ndindex(batch, heads, tokens):
        seen = [m for m in range(n + 1 if causal else tokens) if mask is None or mask[b, m]]
        count = {"length": tokens, "valid": len(seen), None: 1}[scale]
        for m in seen:
            product = np.dot(query[b, n, h].astype("float64"), key[b, m, h])
            maps[b, h, n, m] = product / np.sqrt(count)
    return maps


def simple_attention_gradients(query, key, value, cotangent, **options):
    """Gradients of `sum(simple_attention(...) * cotangent)` for query, key and value."""
    ones = np.ones_like(query[..., :1])
    factors = simple_attention_maps(ones, ones, **options)
    maps = simple_attention_maps(query, key, **options)
    pull = factors * np.einsum("bnhe,bmhe->bhnm", cotangent, value)
    return (
        np.einsum("bhnm,bmhd->bnhd", pull, key),
        np.einsum("bhnm,bnhd->bmhd", pull, query),
        np.einsum("bhnm,bnhe->bmhe", maps, cotangent),
    )
