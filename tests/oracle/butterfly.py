"""NumPy references of butterflies and patches. They share no code with the package."""

import math

import numpy as np

erf = np.vectorize(math.erf)


def stride(size, block, stage):
    return block**stage if block ** (stage + 1) <= size else size // block


def order(size, block, stage):
    """Return the entries sorted by block. Entries of a block are `stride` apart."""
    step = stride(size, block, stage)
    starts = [n for n in range(size) if n // step % block == 0]
    return [start + member * step for start in starts for member in range(block)]


def patches(images, size):
    """Return patches (batch, patches, size * size * channels) in (row, column, channel) order."""
    batch, height, width, channels = images.shape
    corners = [(r, c) for r in range(0, height, size) for c in range(0, width, size)]
    cut = [images[:, r : r + size, c : c + size].reshape(batch, -1) for r, c in corners]
    return np.stack(cut, axis=1)


def image(patches, size, height, width):
    batch, _, features = patches.shape
    out = np.empty((batch, height, width, features // size**2))
    per_row = width // size
    for n in range(patches.shape[1]):
        r, c = n // per_row * size, n % per_row * size
        out[:, r : r + size, c : c + size] = patches[:, n].reshape(batch, size, size, -1)
    return out


def gelu(x):
    return x * (1 + erf(x / math.sqrt(2))) / 2


def layer_norm(x, gamma, beta, epsilon=1e-5):
    centered = x - x.mean(-1, keepdims=True)
    return centered / np.sqrt((centered**2).mean(-1, keepdims=True) + epsilon) * gamma + beta


def block_dense(x, kernel, bias=0):
    """Multiply each block of the last axis by its matrix in `kernel`, (blocks, in, out)."""
    parts = np.split(x, len(kernel), axis=-1)
    outs = [part @ matrix for part, matrix in zip(parts, kernel, strict=True)]
    return np.concatenate(outs, axis=-1) + np.reshape(bias, -1)


def butterfly(x, block, stages):
    """Apply `stages` in series: functions of (..., size) that each mix blocks."""
    for stage, mix in enumerate(stages):
        positions = order(x.shape[-1], block, stage)
        out = np.empty_like(x)
        out[..., positions] = mix(x[..., positions])
        x = out
    return x


def attend(x, query, key, value, output, allowed):
    """Compute softmax attention of (tokens, channels), one head at a time.

    Projections are (kernel, bias); `allowed` is (heads, tokens, tokens). A query without allowed
    keys attends to all keys.
    """
    query, key, value = (x @ kernel + bias for kernel, bias in (query, key, value))
    split = (np.split(t, len(allowed), axis=-1) for t in (query, key, value))
    outs = []
    for q, k, v, mask in zip(*split, allowed, strict=True):
        mask = mask | ~mask.any(axis=1, keepdims=True)
        scores = np.where(mask, q @ k.T / math.sqrt(q.shape[-1]), -np.inf)
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        outs.append(weights / weights.sum(-1, keepdims=True) @ v)
    return np.concatenate(outs, axis=-1) @ output[0] + output[1]


def sparse_linear(x, spread, gather, bias):
    """Apply the two block-diagonal maps of Table II with a transposition between them."""
    hidden = block_dense(x, spread)
    matrices = hidden.reshape(*x.shape[:-1], len(spread), -1)
    return block_dense(np.moveaxis(matrices, -1, -2).reshape(hidden.shape), gather, bias)
