"""Singular values of tokens: how many directions a mixer leaves them."""

from typing import Any

import numpy as np

from keras_permix._typing import Tensor
from keras_permix.analysis.rank_residual import as_tokens


def singular_spectrum(tokens: Tensor) -> np.ndarray:
    """Singular values of the tokens of every sample, as matrices `(tokens, channels)`.

    Args:
        tokens: Tensor or array `(batch, tokens, channels)`, such as what a mixer gives.

    Returns:
        A float64 array `(batch, min(tokens, channels))`, the largest first.

    Raises:
        ValueError: for a wrong shape.

    Example:

    >>> import numpy as np
    >>> from keras_permix.analysis import singular_spectrum
    >>> singular_spectrum(np.array([[[3.0, 0.0], [0.0, 4.0], [0.0, 0.0]]])).tolist()
    [[4.0, 3.0]]

    Source: Yuan & Xu, "Sliceformer", 2023, and "Channel-wise Sample Permutation", 2024, which
    compare mixers by these spectra.
    """
    return np.linalg.svd(as_tokens(tokens), compute_uv=False)


def plot_singular_spectrum(ax: Any, tokens: Tensor, **line: Any) -> None:
    """Draw singular values relative to the largest, mean of the batch, on a logarithmic scale.

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
