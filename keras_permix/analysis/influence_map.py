"""Which tokens a mixer listens to, measured from outside."""

from typing import Any

import keras
import numpy as np

from keras_permix._typing import Layer, Tensor
from keras_permix.analysis.rank_residual import as_tokens


def influence_map(layer: Layer, tokens: Tensor, epsilon: float = 1e-3, seed: int = 0) -> np.ndarray:
    """How much each output token of any mixer changes with each input token.

    Every input token in turn is moved by a small random step, and the outputs are compared:
    `map[n, m]` is the change of token `n` for a step of token `m`, relative to the step. It needs
    no access to the inside of the layer, so it draws attention, sorting and recurrence alike. Ties
    and exchanges at the very step aside, it is the norm of a random column of the Jacobian.

    Args:
        layer: A layer or model from `(batch, tokens, channels)` to the same number of tokens.
        tokens: Input to measure at, `(batch, tokens, channels)`. The map is the mean of the batch.
        epsilon: Length of the step of a token, relative to the root mean square of the input where
            that is not 0.
        seed: Seed of the direction of the steps.

    Returns:
        A float64 array `(tokens, tokens)`, outputs first.

    Raises:
        ValueError: for an input that is not `(batch, tokens, channels)`.

    Example:

    >>> import numpy as np
    >>> from keras_permix.analysis import influence_map
    >>> tokens = np.random.default_rng(0).normal(size=(1, 4, 8)).astype("float32")
    >>> influence_map(keras.layers.Identity(), tokens).round(2).tolist()[1]
    [0.0, 1.0, 0.0, 0.0]
    """
    return influence_maps(layer, tokens, epsilon, seed).mean(axis=0)


def influence_maps(
    layer: Layer, tokens: Tensor, epsilon: float = 1e-3, seed: int = 0
) -> np.ndarray:
    """The map of each sample, `(batch, tokens, tokens)`."""
    tokens = as_tokens(tokens).astype("float32")
    still = _call(layer, tokens)
    step = np.random.default_rng(seed).normal(size=tokens.shape[::2])
    length = epsilon * (np.sqrt(np.mean(tokens**2)) or 1)
    step *= length / np.linalg.norm(step, axis=-1, keepdims=True)
    columns = []
    for token in range(tokens.shape[1]):
        moved = tokens.copy()
        moved[:, token] += step
        taken = np.linalg.norm(moved[:, token] - tokens[:, token], axis=-1)
        change = np.linalg.norm(_call(layer, moved) - still, axis=-1)
        columns.append(change / taken[:, None])
    return np.stack(columns, axis=2)


def _call(layer, tokens):
    return keras.ops.convert_to_numpy(layer(tokens)).astype("float64")


def plot_influence_map(ax: Any, matrix: np.ndarray) -> None:
    """Draw an influence map: row `n`, column `m` is dark where output `n` listens to input `m`.

    The darkest color is that of the largest entry off the diagonal, which a skip connection lifts.

    Args:
        ax: Matplotlib axes.
        matrix: What `influence_map` returns.

    Example:

    >>> import numpy as np
    >>> from keras_permix.analysis import plot_influence_map
    >>> from matplotlib.figure import Figure
    >>> ax = Figure().subplots()
    >>> plot_influence_map(ax, np.array([[1.0, 0.5], [0.25, 1.0]]))
    >>> float(ax.images[0].norm.vmax)
    0.5
    """
    among_others = np.max(matrix * (1 - np.eye(len(matrix))))
    ax.imshow(matrix, cmap="magma_r", vmin=0, vmax=among_others or None)
    ax.set(xlabel="input token", ylabel="output token", xticks=[], yticks=[])
