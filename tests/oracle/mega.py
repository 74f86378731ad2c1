"""NumPy references of MEGA's parts in float64. They share no code with the package."""

import math

import numpy as np


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def silu(x):
    return x * sigmoid(x)


def ema_taps(delta, alpha, beta, gamma, tokens, truncation=None):
    """Return the factor of a token after 0, 1, … tokens: (rows, tokens)."""
    p = sigmoid(delta)
    q = 1 - p * sigmoid(alpha)
    taps = [(gamma * p * beta * q**t).sum(axis=1) for t in range(tokens)]
    taps = np.stack(taps, axis=1) / np.sqrt(delta.shape[1])
    return taps if truncation is None else taps * (np.arange(tokens) < truncation)


def ema_matrix(delta, alpha, beta, gamma, omega, tokens, truncation=None):
    """Return the factor of each input token (last axis) for each output token, by channel."""
    channels = len(omega)
    taps = ema_taps(delta, alpha, beta, gamma, tokens, truncation)
    matrix = np.zeros((channels, tokens, tokens))
    for to in range(tokens):
        for come in range(to + 1):
            matrix[:, to, come] += taps[:channels, to - come]
            if len(taps) > channels:
                matrix[:, come, to] += taps[channels:, to - come]
    return matrix


def damped_ema(x, delta, alpha, beta, gamma, omega, truncation=None, mask=None):
    matrix = ema_matrix(delta, alpha, beta, gamma, omega, x.shape[1], truncation)
    real = x if mask is None else x * mask[..., None]
    return np.einsum("cts,bsc->btc", matrix, real) + omega * x


def damped_ema_gradient(cotangent, delta, alpha, beta, gamma, omega, truncation=None, mask=None):
    """Return the gradient of `sum(damped_ema(x) * cotangent)` for `x`."""
    matrix = ema_matrix(delta, alpha, beta, gamma, omega, cotangent.shape[1], truncation)
    back = np.einsum("cts,btc->bsc", matrix, cotangent)
    return (back if mask is None else back * mask[..., None]) + omega * cotangent


def damped_ema_of_many(x, delta, alpha, beta, gamma, omega, truncation=None):
    """Compute `damped_ema` by recurrence, for sequences too long for matrices."""
    p = sigmoid(delta)
    q = 1 - p * sigmoid(alpha)
    truncation = truncation or x.shape[1]
    channels, out = len(omega), omega * x
    for first, step in ((0, 1), (channels, -1)):
        rows = slice(first, first + channels)
        enters, leaves = (p * beta)[rows], (p * beta * q**truncation)[rows]
        inputs, outputs = x[:, ::step], out[:, ::step]
        state = np.zeros((len(x), *delta[rows].shape))
        for token in range(x.shape[1]) if len(delta[rows]) else ():
            state = q[rows] * state + enters * inputs[:, token, :, None]
            if token >= truncation:
                state -= leaves * inputs[:, token - truncation, :, None]
            outputs[:, token] += (gamma[rows] * state).sum(axis=-1) / np.sqrt(delta.shape[1])
    return out


def softmax(scores):
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return weights / weights.sum(axis=-1, keepdims=True)


def laplace(scores):
    erf = np.vectorize(math.erf)
    return 0.5 * (1 + erf((scores - 0.707107) / (0.282095 * np.sqrt(2))))


def relu2(scores):
    return np.maximum(scores, 0) ** 2


def simple_bias(table, tokens):
    middle = (len(table) - 1) // 2
    return np.array([[table[middle + j - i] for j in range(tokens)] for i in range(tokens)])


def rotary_bias(a, b, tokens):
    """Rotate vectors as complex numbers: the first half is real, the second imaginary."""
    half = len(a) // 2
    angles = np.arange(tokens)[:, None] * 10000.0 ** (-np.arange(half) / half)
    a, b = ((v[:half] + 1j * v[half:]) * np.exp(1j * angles) for v in (a, b))
    return np.real(a @ b.conj().T)


def attend(function, query, key, value, bias, real, causal=False):
    """Compute attention in one chunk of one sample; `real` marks real tokens."""
    tokens = len(query)
    visible = np.tri(tokens, dtype=bool) if causal else np.ones((tokens, tokens), bool)
    allowed = visible & real
    allowed |= visible & ~allowed.any(axis=1, keepdims=True)  # queries without keys ignore `real`
    if function == "softmax":
        scores = query @ key.T / np.sqrt(query.shape[1]) + bias
        return softmax(np.where(allowed, scores, -np.inf)) @ value
    context = allowed.sum(axis=1, keepdims=True)
    scores = query @ key.T / context + bias
    return ({"laplace": laplace, "relu2": relu2}[function](scores) * allowed) @ value


def norm(kind, x, weights, epsilon=1e-5):
    """Normalize `x`. `weights` are in the order of the layer's weights."""
    if kind == "batchnorm":
        gain, offset, mean, variance = weights
        return gain * (x - mean) / np.sqrt(variance + epsilon) + offset
    if kind == "layernorm":
        x = x - x.mean(axis=-1, keepdims=True)
    x = x / np.sqrt((x**2).mean(axis=-1, keepdims=True) + epsilon)
    return weights[0] * x + (weights[1] if kind == "layernorm" else 0)


def chunks(tokens, size):
    return [slice(start, start + size) for start in range(0, tokens, size)]


def mega_block(x, w, mix, *, kind="layernorm", norm_first=True, truncation=None, mask=None):
    """Apply a block; `w` holds lists of weights by layer, `mix(shared, values)` mixes tokens."""

    def dense(name, x):
        kernel, bias = w[name]
        return x @ kernel + bias

    width, hidden_width = w["hidden"][1].size, w["value"][1].size
    normed = norm(kind, x, w["norm"]) if norm_first else x
    values = silu(dense("value", normed))
    averaged = silu(damped_ema(normed, *w["ema"], truncation=truncation, mask=mask))
    gates = dense("gate", averaged)
    update, candidate = sigmoid(gates[..., :width]), gates[..., -width:]
    shared_and_reset = silu(gates[..., width:-width])
    shared, reset = shared_and_reset[..., :-hidden_width], shared_and_reset[..., -hidden_width:]
    hidden = silu(candidate + dense("hidden", mix(shared, values) * reset))
    x = x + update * (hidden - x)
    x = x if norm_first else norm(kind, x, w["norm"])
    normed = norm(kind, x, w["feed_forward/norm"]) if norm_first else x
    x = x + dense("feed_forward/mlp_out", silu(dense("feed_forward/mlp_in", normed)))
    return x if norm_first else norm(kind, x, w["feed_forward/norm"])
