"""Measure how far tokens are from being equal: rank residuals, their bound, spectra."""

from collections.abc import Iterable
from typing import Any

import keras
import numpy as np

from keras_permix._typing import Tensor


def rank_residual(tokens: Tensor) -> np.ndarray:
    """Subtract the mean of all tokens, and return the rest.

    The rest is zero if all tokens are equal, to which stacked softmax attention converges. Of all
    `tokens - 1 x̂ᵀ` with one `x̂` per sample, it has the smallest Frobenius norm.

    Args:
        tokens: Tensor or array `(batch, tokens, channels)`.

    Returns:
        A float64 array of the shape of `tokens`.

    Raises:
        ValueError: for a wrong shape.

    Example:
        >>> import numpy as np
        >>> from keras_permix.analysis import rank_residual
        >>> rank_residual(np.array([[[1.0, 5.0], [3.0, 5.0]]])).tolist()
        [[[-1.0, 0.0], [1.0, 0.0]]]

    Reference: Yuan & Xu, "Channel-wise Sample Permutation", 2024, arXiv:2410.10914, Theorem 1. Dong
    et al., "Attention is Not All You Need", 2021, arXiv:2103.03404.
    """
    tokens = as_tokens(tokens)
    return tokens - tokens.mean(axis=1, keepdims=True)


def token_norm(tokens: Tensor) -> np.ndarray:
    """Return the (1, ∞) norm of the tokens of every sample, as matrices `(tokens, channels)`.

    It is the geometric mean of two norms: the largest sum of magnitudes of a channel (1), and that
    of a token (∞).

    Args:
        tokens: Tensor or array `(batch, tokens, channels)`.

    Returns:
        A float64 array `(batch,)`.

    Raises:
        ValueError: for a wrong shape.

    Example:
        >>> import numpy as np
        >>> from keras_permix.analysis import token_norm
        >>> token_norm(np.array([[[1.0, -1.0], [3.0, 5.0]]])).round(6).tolist()
        [6.928203]

    Reference: Yuan & Xu, "Channel-wise Sample Permutation", 2024, Theorem 1.
    """
    sizes = np.abs(as_tokens(tokens))
    return np.sqrt(sizes.sum(axis=1).max(axis=1) * sizes.sum(axis=2).max(axis=1))


def plot_rank_residual(ax: Any, token_maps: Iterable[Tensor], **line: Any) -> None:
    """Draw the norm of the residual, relative to that of the tokens, over depth.

    Args:
        ax: Matplotlib axes.
        token_maps: Tokens `(batch, tokens, channels)` at increasing depths. Norms are averaged over
            the batch.
        **line: Arguments of `ax.plot`, such as `label`.

    Example:
        >>> import numpy as np
        >>> from keras_permix.analysis import plot_rank_residual
        >>> from matplotlib.figure import Figure
        >>> opposite, alike = np.array([[[1.0], [-1.0]]]), np.array([[[1.0], [1.0]]])
        >>> ax = Figure().subplots()
        >>> plot_rank_residual(ax, [opposite, alike], label="attention")
        >>> ax.lines[0].get_ydata().tolist()
        [1.0, 0.0]
    """
    shares = [np.mean(token_norm(rank_residual(x)) / token_norm(x)) for x in token_maps]
    ax.plot(range(len(shares)), shares, **{"marker": "o", "markersize": 3, **line})
    ax.set(xlabel="layers", ylabel="residual / tokens, (1, ∞) norms", xticks=range(len(shares)))


def as_tokens(tokens):
    """Return `tokens` as a float64 array of shape (batch, tokens, channels)."""
    tokens = keras.ops.convert_to_numpy(tokens).astype("float64")
    if tokens.ndim != 3:
        rule = "`tokens` must have the shape (batch, tokens, channels)."
        raise ValueError(f"{rule} Received: tokens.shape={tokens.shape}")
    return tokens


def residual_bound(tokens: Tensor, kernels: Iterable[Tensor], lipschitz: float = 1.0) -> np.ndarray:
    """Bound the (1, ∞) norm of `rank_residual` after every layer of a stack of CSP layers.

    Each layer is a CSP without output projection, followed by a function of single tokens, without
    skip connections. After `l` layers the bound is
    `channels**(l / 2) * (lipschitz * beta)**l * norm(rank_residual(tokens))`, where `beta` is the
    largest 1-norm of the value kernels so far. The theorem uses the smallest residual in this norm,
    which `rank_residual` only approximates.

    Args:
        tokens: Tensor or array `(batch, tokens, channels)` before the first layer.
        kernels: Value kernels of the layers, `(channels, channels)` each.
        lipschitz: Lipschitz constant, in the (1, ∞) norm, of the function after each CSP.

    Returns:
        A float64 array `(layers + 1, batch)`, first the norm before the first layer.

    Raises:
        ValueError: for a kernel that is not `(channels, channels)`, or tokens of a wrong shape.

    Example:
        >>> import numpy as np
        >>> from keras_permix.analysis import residual_bound
        >>> tokens = np.array([[[1.0, 0.0, 0.0, 0.0], [-1.0, 0.0, 0.0, 0.0]]])
        >>> (residual_bound(tokens, [np.eye(4), 2 * np.eye(4)]) / 2**0.5).round(6).tolist()
        [[1.0], [2.0], [16.0]]

    Reference: Yuan & Xu, "Channel-wise Sample Permutation", 2024, Theorem 1.
    """
    residual = rank_residual(tokens)
    channels = residual.shape[2]
    kernels = [keras.ops.convert_to_numpy(kernel).astype("float64") for kernel in kernels]
    for kernel in kernels:
        if kernel.shape != (channels, channels):
            rule = "`kernels` must have the shape (channels, channels)."
            raise ValueError(f"{rule} Received: kernel.shape={kernel.shape}, {channels=}")
    norms = [np.abs(kernel).sum(axis=0).max() for kernel in kernels]
    beta = np.maximum.accumulate([0.0, *norms])
    layers = np.arange(len(beta))
    return ((channels**0.5 * lipschitz * beta) ** layers)[:, None] * token_norm(residual)


def plot_residual_bound(
    ax: Any, token_maps: Iterable[Tensor], bounds: np.ndarray, **line: Any
) -> None:
    """Draw the norm of the residual over depth, and its bound dashed, on a logarithmic scale.

    Args:
        ax: Matplotlib axes.
        token_maps: Tokens `(batch, tokens, channels)` before the first layer and after each.
        bounds: The result of `residual_bound`.
        **line: Arguments of `ax.plot`, such as `label`.

    Example:
        >>> import numpy as np
        >>> from keras_permix.analysis import plot_residual_bound, residual_bound
        >>> from matplotlib.figure import Figure
        >>> tokens = np.array([[[1.0, 0.0], [-1.0, 0.0]]])
        >>> ax = Figure().subplots()
        >>> bound = residual_bound(tokens, [np.eye(2)])
        >>> plot_residual_bound(ax, [tokens, -tokens], bound, label="CSP")
        >>> [line.get_label() for line in ax.lines]
        ['CSP', 'bound of Theorem 1']
    """
    norms = [np.mean(token_norm(rank_residual(tokens))) for tokens in token_maps]
    (drawn,) = ax.plot(range(len(norms)), norms, **{"marker": "o", "markersize": 3, **line})
    bound = np.mean(bounds, axis=1)
    ax.plot(range(len(bound)), bound, "--", color=drawn.get_color(), label="bound of Theorem 1")
    ax.set(xlabel="layers", ylabel="residual, (1, ∞) norm", yscale="log", xticks=range(len(norms)))


def singular_spectrum(tokens: Tensor) -> np.ndarray:
    """Return the singular values of the tokens of every sample, as matrices `(tokens, channels)`.

    Args:
        tokens: Tensor or array `(batch, tokens, channels)`.

    Returns:
        A float64 array `(batch, min(tokens, channels))`, the largest first.

    Raises:
        ValueError: for a wrong shape.

    Example:
        >>> import numpy as np
        >>> from keras_permix.analysis import singular_spectrum
        >>> singular_spectrum(np.array([[[3.0, 0.0], [0.0, 4.0], [0.0, 0.0]]])).tolist()
        [[4.0, 3.0]]

    Reference: Yuan & Xu, "Sliceformer", 2023, and "Channel-wise Sample Permutation", 2024, which
    compare mixers by these spectra.
    """
    return np.linalg.svd(as_tokens(tokens), compute_uv=False)


def plot_singular_spectrum(ax: Any, tokens: Tensor, **line: Any) -> None:
    """Draw singular values relative to the largest, averaged over the batch, on a log scale.

    Args:
        ax: Matplotlib axes.
        tokens: Tensor or array `(batch, tokens, channels)`.
        **line: Arguments of `ax.plot`, such as `label`.

    Example:
        >>> import numpy as np
        >>> from keras_permix.analysis import plot_singular_spectrum
        >>> from matplotlib.figure import Figure
        >>> ax = Figure().subplots()
        >>> plot_singular_spectrum(ax, np.array([[[3.0, 0.0], [0.0, 4.0]]]), label="CSP")
        >>> ax.lines[0].get_ydata().tolist()
        [1.0, 0.75]
    """
    spectra = singular_spectrum(tokens)
    mean = np.mean(spectra / spectra[:, :1], axis=0)
    ax.plot(range(1, len(mean) + 1), mean, **line)
    ax.set(xlabel="index", ylabel="singular value / largest", yscale="log")
