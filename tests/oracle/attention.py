"""NumPy references of attention without softmax and of Sinkhorn, in float64.

They share no code with the package.
"""

import numpy as np


def simple_attention(query, key, value, mask=None, scale="length", causal=False):
    """Compute the quadratic form, one sample and one head at a time."""
    return np.einsum(
        "bhnm,bmhe->bnhe",
        simple_attention_maps(query, key, mask, scale, causal),
        value.astype("float64"),
    )


def simple_attention_maps(query, key, mask=None, scale="length", causal=False):
    """Return the factor of every value for every query, (batch, heads, tokens, tokens)."""
    batch, tokens, heads, _ = query.shape
    maps = np.zeros((batch, heads, tokens, tokens))
    for b, h, n in np.ndindex(batch, heads, tokens):
        seen = [m for m in range(n + 1 if causal else tokens) if mask is None or mask[b, m]]
        count = {"length": n + 1 if causal else tokens, "valid": len(seen), None: 1}[scale]
        for m in seen:
            product = np.dot(query[b, n, h].astype("float64"), key[b, m, h])
            maps[b, h, n, m] = product / np.sqrt(count)
    return maps


def simple_attention_gradients(query, key, value, cotangent, **options):
    """Return gradients of `sum(simple_attention(...) * cotangent)`: query, key and value."""
    ones = np.ones_like(query[..., :1])
    factors = simple_attention_maps(ones, ones, **options)
    maps = simple_attention_maps(query, key, **options)
    pull = factors * np.einsum("bnhe,bmhe->bhnm", cotangent, value)
    return (
        np.einsum("bhnm,bmhd->bnhd", pull, key),
        np.einsum("bhnm,bnhd->bmhd", pull, query),
        np.einsum("bhnm,bnhe->bmhe", maps, cotangent),
    )


def causal_linear_attention(query, key, value, mask=None):
    """Compute the quadratic form, one query at a time. Queries without keys give zeros."""
    features = [np.where(x > 0, x + 1, np.exp(x)) for x in (query, key)]
    batch, tokens, heads, _ = query.shape
    out = np.zeros(value.shape)
    for b, h, n in np.ndindex(batch, heads, tokens):
        seen = [m for m in range(n + 1) if mask is None or mask[b, m]]
        if seen:
            weights = features[1][b, seen, h] @ features[0][b, n, h]
            out[b, n, h] = weights @ value[b, seen, h] / weights.sum()
    return out


def sinkhorn(scores, iterations, temperature):
    """Run Sinkhorn iterations in linear (not log) space, rows first."""
    scores = scores.astype("float64") / temperature
    a = np.exp(scores - scores.max(axis=(-2, -1), keepdims=True))
    for _ in range(iterations):
        a = a / a.sum(axis=-1, keepdims=True)
        a = a / a.sum(axis=-2, keepdims=True)
    return a


def sinkhorn_csp(x, steps, group_size, iterations, temperature, mask=None):
    """Sort softly, one group of one channel at a time."""
    x = x.astype("float64")
    out = np.zeros_like(x)
    for b, sample in enumerate(x):
        real = np.arange(len(sample)) if mask is None else np.flatnonzero(mask[b])
        for c in range(x.shape[2] if len(real) else 0):
            all_steps = steps(len(real)) if callable(steps) else steps
            shifted = np.roll(sample[real, c], all_steps[c] % len(real))
            for start in range(0, len(real), group_size or len(sample)):
                part = np.s_[start : start + (group_size or len(sample))]
                reference, group = sample[real[part], 0], shifted[part]
                scores = np.outer(reference - reference.mean(), group - group.mean())
                soft = sinkhorn(scores, iterations, temperature)
                out[b, real[part], c] = soft @ group if c else reference
    return out


def change(function, x, direction, cotangent, step=1e-6, axis=None):
    """Return the derivative of `sum(function(x) * cotangent)` along a direction.

    It is computed by central differences. The sum is over all axes, or over those in `axis`.
    """
    x = x.astype("float64")
    ahead, behind = function(x + step * direction), function(x - step * direction)
    return np.sum((ahead - behind) * cotangent, axis=axis) / (2 * step)
