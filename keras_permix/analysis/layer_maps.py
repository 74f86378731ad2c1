"""Compute and draw mixing maps of single layers."""

from collections.abc import Sequence
from numbers import Integral
from typing import Any

import numpy as np
from keras import ops

from keras_permix._typing import Layer, Mask, Tensor
from keras_permix.layers import CSP, SimpleAttention, SinkhornCSP, SliceSort


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
        raise TypeError(
            "`layer` must be a CSP or SliceSort that is built. "
            f"Received: layer={type(layer).__name__}{'' if layer.built else ', not built'}"
        )
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


def butterfly_maps(layer: Layer, tokens: Tensor, mask: Mask = None) -> np.ndarray:
    """Return the attention maps of a `ButterflyBlock` on tokens, with zeros outside its blocks.

    `maps[b, h] @ values[b, :, h]` is the output of head `h`. The product of the maps of
    all stages (see `ops.butterfly_stages`) has no zeros, since together they mix all tokens.

    Args:
        layer: A built `ButterflyBlock` with `axis=1` around `SoftmaxAttention`, or around a block
            with such a `mixer`.
        tokens: Input of the layer, `(batch, tokens, channels)`.
        mask: Booleans `(batch, tokens)`, True at real tokens.

    Returns:
        A float32 array `(batch, heads, tokens, tokens)`; every row sums to 1.

    Raises:
        TypeError: if the layer is not a `ButterflyBlock` of attention along the tokens.

    Example:

    >>> import numpy as np
    >>> from keras_permix.analysis import butterfly_maps
    >>> from keras_permix.layers import ButterflyBlock, SoftmaxAttention
    >>> tokens = np.random.default_rng(0).normal(size=(1, 16, 8)).astype("float32")
    >>> layers = [ButterflyBlock(SoftmaxAttention(2), 4, stage) for stage in range(2)]
    >>> for layer in layers:
    ...     layer.build(tokens.shape)
    >>> first, second = (butterfly_maps(layer, tokens) for layer in layers)
    >>> float((first > 0).mean()), float((second @ first > 0).mean())
    (0.25, 1.0)

    Reference: Sapkota & Bhattarai, "Dimension Mixer", 2023.
    """
    block: Any = getattr(layer, "block", None)
    attention = getattr(block, "mixer", block)
    if not hasattr(attention, "attention_maps") or layer.axis != 1:
        raise TypeError(
            "`layer` must be a ButterflyBlock of SoftmaxAttention along the tokens. "
            f"Received: layer={type(layer).__name__}, layer.block={type(block).__name__}"
        )
    maps = attention.attention_maps(*mixed_blocks(layer, tokens, mask))
    return maps_of_all(layer, maps, tokens.shape[1])


def mixed_blocks(layer, tokens, mask=None):
    """Return the tokens and mask that the mixer within a `ButterflyBlock` receives."""
    blocks = layer.cut(ops.convert_to_tensor(tokens))
    if hasattr(layer.block, "mixer") and layer.block.norm_first:
        blocks = layer.block.mixer_norm(blocks)
    return blocks, None if mask is None else layer.cut(ops.convert_to_tensor(mask))


def maps_of_all(layer, maps, size):
    """Expand maps of blocks `(batch * blocks, …, block_size, block_size)` to all tokens."""
    maps = ops.convert_to_numpy(ops.cast(maps, "float32"))
    members = ops.convert_to_numpy(layer.cut(ops.arange(size)[None]))
    out = np.zeros((len(maps) // len(members), *maps.shape[1:-2], size, size), "float32")
    for index, positions in enumerate(members):
        out[..., positions[:, None], positions] = maps[index :: len(members)]
    return out


def plot_attention_maps(axes: Any, maps: np.ndarray) -> None:
    """Draw attention maps: the shade at row `n`, column `m` is the weight of token `m` in `n`.

    Maps with negative weights, such as those of `SimpleAttention`, share a color scale: red is
    positive, blue negative and white zero.

    Args:
        axes: Matplotlib axes, one for each map.
        maps: Attention maps `(maps, tokens, tokens)`.

    Example:

    >>> import numpy as np
    >>> from keras_permix.analysis import plot_attention_maps
    >>> from matplotlib.figure import Figure
    >>> axes = Figure().subplots(1, 2)
    >>> plot_attention_maps(axes, np.stack([np.eye(4), -2 * np.eye(4)]))
    >>> [float(ax.images[0].norm.vmax) for ax in axes]
    [2.0, 2.0]
    """
    colors: dict[str, Any] = {"cmap": "Greys", "vmin": 0}
    if np.min(maps) < 0:
        top = np.max(np.abs(maps))
        colors = {"cmap": "RdBu_r", "vmin": -top, "vmax": top}
    for ax, weights in zip(axes, maps, strict=True):
        ax.imshow(weights, **colors, interpolation="nearest")
        ax.set(xticks=[], yticks=[])


def simple_attention_maps(
    layer: Layer,
    tokens: Tensor,
    mask: Mask = None,
    heads: int | slice | Sequence[int] | None = None,
) -> np.ndarray:
    """Return the attention maps of a `SimpleAttention` layer for given tokens.

    `maps[b, h] @ values[b, :, h]` is the output of head `h`. A map holds the scaled products of
    queries and keys. Without a softmax, values have both signs and rows do not sum to 1. Unlike the
    layer, the maps take memory quadratic in the tokens.

    Args:
        layer: A built `SimpleAttention` layer.
        tokens: Input of the layer, `(batch, tokens, channels)`.
        mask: Booleans `(batch, tokens)`, True for real tokens. Columns of padding are 0.
        heads: Indices of heads. `None`: all heads.

    Returns:
        A float32 array `(batch, heads, tokens, tokens)`: rows are queries, columns are keys.

    Raises:
        TypeError: for a layer of another kind.

    Example:

    >>> import numpy as np
    >>> from keras_permix.analysis import simple_attention_maps
    >>> from keras_permix.layers import SimpleAttention
    >>> tokens = np.random.default_rng(0).normal(size=(1, 8, 4)).astype("float32")
    >>> layer = SimpleAttention(num_heads=2, causal=True)
    >>> layer.build(tokens.shape)
    >>> maps = simple_attention_maps(layer, tokens)
    >>> maps.shape, bool(np.triu(maps, 1).any())
    ((1, 2, 8, 8), False)

    Reference: Yorsh et al., "SimpleTRON", 2022.
    """
    if not isinstance(layer, SimpleAttention):
        raise TypeError(
            f"`layer` must be a built SimpleAttention. Received: layer={type(layer).__name__}"
        )
    query, key, value = layer.split_heads(ops.convert_to_tensor(tokens))
    positions = ops.eye(value.shape[1], dtype=value.dtype)[None, :, None]
    # Attention is linear in the values, so unit vectors as values return its matrix.
    columns = ops.broadcast_to(positions, (*value.shape[:3], value.shape[1]))
    maps = ops.transpose(layer.attend(query, key, columns, mask), (0, 2, 1, 3))
    maps = ops.convert_to_numpy(ops.cast(maps, "float32"))
    if heads is None:
        return maps
    return maps[:, [heads] if isinstance(heads, Integral) else heads]
