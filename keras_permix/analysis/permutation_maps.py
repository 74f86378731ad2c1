"""Compute and draw the permutations of single layers."""

from collections.abc import Sequence
from numbers import Integral
from typing import Any

import numpy as np
from keras import ops

from keras_permix._typing import Layer, Tensor
from keras_permix.layers import CSP, SinkhornCSP, SliceSort


def permutation_maps(
    layer: Layer, tokens: Tensor, channels: int | slice | Sequence[int] | None = None
) -> np.ndarray:
    """Return the permutation matrices of a `CSP` or `SliceSort` layer for given tokens.

    `maps[b, c] @ values[b, :, c]` is the mixed channel `c` of the layer. Each map corresponds to an
    attention map, with one 1 in every row and column.

    Args:
        layer: A built `CSP` or `SliceSort`.
        tokens: Input of the layer, `(batch, tokens, channels)`.
        channels: Indices of inner channels. `None`: all channels.

    Returns:
        A float32 array `(batch, channels, tokens, tokens)`. Equal values keep the order of
        the unshifted tokens.

    Raises:
        TypeError: for a layer that does not permute its values, such as `SinkhornCSP` and
            `CausalCSP`.

    Example:
        >>> import numpy as np
        >>> from keras_permix.analysis import permutation_maps
        >>> from keras_permix.layers import CSP
        >>> tokens = np.random.default_rng(0).normal(size=(1, 8, 4)).astype("float32")
        >>> layer = CSP()
        >>> layer.build(tokens.shape)
        >>> float(permutation_maps(layer, tokens).sum(axis=-1).min())
        1.0

    Reference: Yuan & Xu, "Channel-wise Sample Permutation", 2024, Figure 3.
    """
    permutes = isinstance(layer, CSP | SliceSort) and not isinstance(layer, SinkhornCSP)
    if not permutes or not layer.built:
        raise TypeError(f"`layer` must be a built CSP or SliceSort. Received: {layer=}")
    values = layer.value_dense(tokens) if layer.use_value_projection else tokens
    sources = source_tokens(values, layer.mix)
    if channels is not None:
        sources = sources[..., [channels] if isinstance(channels, Integral) else channels]
    return np.eye(sources.shape[1], dtype="float32")[np.moveaxis(sources, 2, 1)]


def source_tokens(values, permute):
    """Return the source token of each permuted value, an integer array of the shape of `values`.

    `permute` is a function of values. It receives their ranks as integers.
    """
    values = ops.convert_to_numpy(ops.cast(values, "float32"))
    order = np.argsort(values, axis=1, kind="stable")
    ranks = np.argsort(order, axis=1, kind="stable")
    permuted = ops.convert_to_numpy(permute(ops.convert_to_tensor(ranks, "int32")))
    return np.take_along_axis(order, permuted, axis=1)


def plot_permutation_maps(axes: Any, maps: np.ndarray) -> None:
    """Draw permutation maps as dots: a dot at row `n`, column `m` moves token `m` to `n`.

    Args:
        axes: Matplotlib axes, one for each map.
        maps: Permutation matrices `(maps, tokens, tokens)`.

    Example:
        >>> import numpy as np
        >>> from keras_permix.analysis import plot_permutation_maps
        >>> from matplotlib.figure import Figure
        >>> axes = Figure().subplots(1, 2)
        >>> plot_permutation_maps(axes, np.eye(3)[[[0, 1, 2], [1, 2, 0]]])
        >>> axes[1].collections[0].get_offsets().tolist()
        [[1.0, 0.0], [2.0, 1.0], [0.0, 2.0]]
    """
    for ax, matrix in zip(axes, maps, strict=True):
        rows, columns = np.nonzero(matrix)
        ax.scatter(columns, rows, s=4, linewidths=0)
        ax.set(xlim=(-1, matrix.shape[1]), ylim=(matrix.shape[0], -1), aspect="equal")
        ax.set(xticks=[], yticks=[])
