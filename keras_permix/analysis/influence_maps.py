"""Measure and draw how output tokens of any layer depend on input tokens."""

from typing import Any

import keras
import numpy as np
from keras import ops

from keras_permix._typing import Layer, Tensor
from keras_permix.analysis.residuals import as_tokens


def influence_map(layer: Layer, tokens: Tensor, epsilon: float = 1e-3, seed: int = 0) -> np.ndarray:
    """Measure how much each output token of a mixer changes with each input token.

    Each input token is moved by a small random step, and the outputs are compared. `map[n, m]` is
    the change of token `n` for a step of token `m`, relative to the step. Any layer is supported.
    Unless the step changes an order, it is the norm of the Jacobian times a random unit vector.

    Args:
        layer: A layer or model from `(batch, tokens, channels)` to the same number of tokens.
        tokens: Input to measure at, `(batch, tokens, channels)`. The map is the mean of the batch.
        epsilon: Length of the step of a token, relative to the root mean square of the input unless
            that is 0.
        seed: Seed of the direction of the steps.

    Returns:
        A float64 array `(tokens, tokens)`, outputs first.

    Raises:
        ValueError: for an input that is not `(batch, tokens, channels)`, or outputs of 16 bits,
            which are too coarse for the step.

    Example:
        >>> import numpy as np
        >>> from keras_permix.analysis import influence_map
        >>> tokens = np.random.default_rng(0).normal(size=(1, 4, 8)).astype("float32")
        >>> influence_map(keras.layers.Identity(), tokens).round(2).tolist()[1]
        [0.0, 1.0, 0.0, 0.0]
    """
    return influences(layer, tokens, epsilon, seed).mean(axis=0)


def influences(layer, tokens, epsilon=1e-3, seed=0):
    """Return the map of each sample, `(batch, tokens, tokens)`."""
    tokens = as_tokens(tokens).astype("float32")
    still = _call(layer, tokens)
    step = np.random.default_rng(seed).normal(size=tokens.shape[::2])
    length = epsilon * (np.sqrt(np.mean(tokens**2)) or 1)
    step *= length / np.linalg.norm(step, axis=-1, keepdims=True)
    columns = []
    for token in range(tokens.shape[1]):
        moved = tokens.copy()
        moved[:, token] += step
        size = np.linalg.norm(moved[:, token] - tokens[:, token], axis=-1)
        change = np.linalg.norm(_call(layer, moved) - still, axis=-1)
        columns.append(change / size[:, None])
    return np.stack(columns, axis=2)


def _call(layer, tokens):
    outputs = layer(tokens)
    dtype = keras.backend.standardize_dtype(outputs.dtype)
    if dtype in ("float16", "bfloat16"):
        rule = "`layer` must compute in float32 to be measured. Load models with dtype='float32'."
        raise ValueError(f"{rule} Received: {dtype=}")
    return ops.convert_to_numpy(outputs).astype("float64")


def plot_influence_map(ax: Any, matrix: np.ndarray) -> None:
    """Draw an influence map: row `n`, column `m` is dark if output `n` depends on `m`.

    The darkest color is the largest entry off the diagonal, because skip connections dominate the
    diagonal.

    Args:
        ax: Matplotlib axes.
        matrix: The result of `influence_map`.

    Example:
        >>> import numpy as np
        >>> from keras_permix.analysis import plot_influence_map
        >>> from matplotlib.figure import Figure
        >>> ax = Figure().subplots()
        >>> plot_influence_map(ax, np.array([[1.0, 0.5], [0.25, 1.0]]))
        >>> float(ax.images[0].norm.vmax)
        0.5
    """
    among_others = np.max(matrix * (1 - np.eye(*matrix.shape)))
    ax.imshow(matrix, cmap="magma_r", vmin=0, vmax=among_others or None)
    ax.set(xlabel="input token", ylabel="output token", xticks=[], yticks=[])
