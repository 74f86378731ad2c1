"""How far tokens are from being all alike: the residual of rank one, over the depth of a model."""

from collections.abc import Callable, Iterable
from typing import Any

import keras
import numpy as np

from keras_permix._typing import Tensor
from keras_permix.utils.checks import check_choice

ESTIMATORS: dict[str, Callable[..., np.ndarray]] = {"mean": np.mean, "median": np.median}


def rank_residual(tokens: Tensor, estimator: str = "mean") -> np.ndarray:
    """What is left of tokens when the token that they share is taken away.

    `tokens - 1 x̂ᵀ`, with one `x̂` for all tokens of a sample. It is zero where all tokens are
    alike, which is what stacked softmax attention drives them to.

    Args:
        tokens: Tensor or array `(batch, tokens, channels)`.
        estimator: "mean", the `x̂` of the least Frobenius norm, or "median", that of the least
            1-norm of every channel.

    Returns:
        A float64 array like `tokens`.

    Raises:
        ValueError: for an unknown estimator or a wrong shape.

    Example:

    >>> import numpy as np
    >>> from keras_permix.analysis import rank_residual
    >>> rank_residual(np.array([[[1.0, 5.0], [3.0, 5.0]]])).tolist()
    [[[-1.0, 0.0], [1.0, 0.0]]]

    Source: Yuan & Xu, "Channel-wise Sample Permutation", 2024, Theorem 1; Dong et al., "Attention
    is not all you need", 2021.
    """
    tokens = as_tokens(tokens)
    estimate = ESTIMATORS[check_choice("estimator", estimator, ESTIMATORS)]
    return tokens - estimate(tokens, axis=1, keepdims=True)


def token_norm(tokens: Tensor, kind: str = "1inf") -> np.ndarray:
    """Norm of the tokens of every sample, as matrices `(tokens, channels)`.

    Args:
        tokens: Tensor or array `(batch, tokens, channels)`.
        kind: "1" (the largest sum of magnitudes of a channel), "inf" (that of a token) or "1inf"
            (the geometric mean of both, which Theorem 1 is about).

    Returns:
        A float64 array `(batch,)`.

    Raises:
        ValueError: for an unknown kind or a wrong shape.

    Example:

    >>> import numpy as np
    >>> from keras_permix.analysis import token_norm
    >>> token_norm(np.array([[[1.0, -5.0], [3.0, 4.0]]]), "1").tolist()
    [9.0]

    Source: Yuan & Xu, "Channel-wise Sample Permutation", 2024, Theorem 1.
    """
    check_choice("kind", kind, ("1", "inf", "1inf"))
    sizes = np.abs(as_tokens(tokens))
    of_channels, of_tokens = sizes.sum(axis=1).max(axis=1), sizes.sum(axis=2).max(axis=1)
    return {"1": of_channels, "inf": of_tokens, "1inf": np.sqrt(of_channels * of_tokens)}[kind]


def plot_rank_residual(
    ax: Any, token_maps: Iterable[Tensor], estimator: str = "mean", **line: Any
) -> None:
    """Draw the norm of the residual relative to that of the tokens over depth, mean of the batch.

    Args:
        ax: Matplotlib axes.
        token_maps: Tokens `(batch, tokens, channels)` at one depth after another.
        estimator: See `rank_residual`.
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
    shares = [
        np.mean(token_norm(rank_residual(tokens, estimator)) / token_norm(tokens))
        for tokens in token_maps
    ]
    ax.plot(range(len(shares)), shares, **{"marker": "o", "markersize": 3, **line})
    ax.set(xlabel="layers", ylabel="residual / tokens, (1, ∞) norms", xticks=range(len(shares)))


def as_tokens(tokens):
    """`tokens` as a float64 array of shape (batch, tokens, channels)."""
    tokens = keras.ops.convert_to_numpy(tokens).astype("float64")
    if tokens.ndim != 3:
        raise ValueError(
            "`tokens` must have the shape (batch, tokens, channels). "
            f"Received: tokens.shape={tokens.shape}"
        )
    return tokens
