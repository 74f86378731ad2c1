"""Theorem 1 of the CSP paper: a bound on the residual of tokens after stacked CSP layers."""

from collections.abc import Iterable
from typing import Any

import keras
import numpy as np

from keras_permix._typing import Tensor
from keras_permix.analysis.rank_residual import rank_residual, token_norm


def residual_bound(
    tokens: Tensor, kernels: Iterable[Tensor], lipschitz: float = 1.0, estimator: str = "mean"
) -> np.ndarray:
    """Bound of the (1, ∞) norm of `rank_residual` after every layer of a stack of CSP layers.

    After `l` layers, each a CSP without output projection and a function of single tokens:
    `channels**(l / 2) * (lipschitz * beta)**l * norm(rank_residual(tokens))`, where `beta` is the
    largest 1-norm of the value kernels so far. There are no skip connections.

    Args:
        tokens: Tensor or array `(batch, tokens, channels)` before the first layer.
        kernels: Value kernels of the layers, `(channels, channels)` each.
        lipschitz: Lipschitz constant, in the (1, ∞) norm, of the function after each CSP.
        estimator: See `rank_residual`. The theorem is about the least residual in this norm, which
            no estimator is in general.

    Returns:
        A float64 array `(layers + 1, batch)`, the norm before the first layer in front.

    Raises:
        ValueError: for a kernel that is not `(channels, channels)`, or tokens of a wrong shape.

    Example:

    >>> import numpy as np
    >>> from keras_permix.analysis import residual_bound
    >>> tokens = np.array([[[1.0, 0.0, 0.0, 0.0], [-1.0, 0.0, 0.0, 0.0]]])
    >>> (residual_bound(tokens, [np.eye(4), 2 * np.eye(4)]) / 2**0.5).round(6).tolist()
    [[1.0], [2.0], [16.0]]

    Source: Yuan & Xu, "Channel-wise Sample Permutation", 2024, Theorem 1.
    """
    residual = rank_residual(tokens, estimator)
    channels = residual.shape[2]
    kernels = [keras.ops.convert_to_numpy(kernel).astype("float64") for kernel in kernels]
    for kernel in kernels:
        if kernel.shape != (channels, channels):
            raise ValueError(
                "`kernels` must have the shape (channels, channels). "
                f"Received: kernel.shape={kernel.shape}, channels={channels}"
            )
    norms = [np.abs(kernel).sum(axis=0).max() for kernel in kernels]
    beta = np.maximum.accumulate([0.0, *norms])
    layers = np.arange(len(beta))
    return ((channels**0.5 * lipschitz * beta) ** layers)[:, None] * token_norm(residual)


def plot_residual_bound(
    ax: Any, token_maps: Iterable[Tensor], bounds: np.ndarray, estimator: str = "mean", **line: Any
) -> None:
    """Draw the norm of the residual over depth, and its bound dashed, on a logarithmic scale.

    Args:
        ax: Matplotlib axes.
        token_maps: Tokens `(batch, tokens, channels)` before the first layer and after each.
        bounds: What `residual_bound` gives.
        estimator: See `rank_residual`.
        **line: Arguments of `ax.plot`, such as `label`.

    Example:

    >>> import numpy as np
    >>> from keras_permix.analysis import plot_residual_bound, residual_bound
    >>> from matplotlib.figure import Figure
    >>> tokens = np.array([[[1.0, 0.0], [-1.0, 0.0]]])
    >>> ax = Figure().subplots()
    >>> plot_residual_bound(ax, [tokens, -tokens], residual_bound(tokens, [np.eye(2)]), label="CSP")
    >>> [line.get_label() for line in ax.lines]
    ['CSP', 'bound of Theorem 1']
    """
    norms = [np.mean(token_norm(rank_residual(tokens, estimator))) for tokens in token_maps]
    (drawn,) = ax.plot(range(len(norms)), norms, **{"marker": "o", "markersize": 3, **line})
    bound = np.mean(bounds, axis=1)
    ax.plot(range(len(bound)), bound, "--", color=drawn.get_color(), label="bound of Theorem 1")
    ax.set(xlabel="layers", ylabel="residual, (1, ∞) norm", yscale="log", xticks=range(len(norms)))
