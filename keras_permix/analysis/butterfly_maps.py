"""What Butterfly Attention attends to, as a matrix of all tokens and as a picture."""

from typing import Any

import keras
import numpy as np

from keras_permix._typing import Layer, Mask, Tensor


def butterfly_maps(layer: Layer, tokens: Tensor, mask: Mask = None) -> np.ndarray:
    """Attention maps of a `ButterflyBlock` on tokens, with zeros outside of its blocks.

    `maps[b, h] @ values[b, :, h]` is what head `h` makes of its values. The product of the maps of
    `ops.butterfly_stages` layers has no zeros: they mix all tokens.

    Args:
        layer: A built `ButterflyBlock` with `axis=1` around `SoftmaxAttention`, or around a block
            that holds one as its `mixer`.
        tokens: What the layer takes, `(batch, tokens, channels)`.
        mask: Booleans `(batch, tokens)`, True at real tokens.

    Returns:
        A float32 array `(batch, heads, tokens, tokens)`; every row sums to 1.

    Raises:
        TypeError: for a layer that is no butterfly of attention to tokens.

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

    Source: Sapkota & Bhattarai, "Dimension Mixer", 2023.
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
    """What the mixer within a `ButterflyBlock` sees of tokens, and the mask of that."""
    blocks = layer.cut(keras.ops.convert_to_tensor(tokens))
    if hasattr(layer.block, "mixer") and layer.block.norm_first:
        blocks = layer.block.mixer_norm(blocks)
    return blocks, None if mask is None else layer.cut(keras.ops.convert_to_tensor(mask))


def maps_of_all(layer, maps, size):
    """Maps of blocks, `(batch * blocks, …, block_size, block_size)`, as maps of all tokens."""
    maps = keras.ops.convert_to_numpy(keras.ops.cast(maps, "float32"))
    members = keras.ops.convert_to_numpy(layer.cut(keras.ops.arange(size)[None]))
    out = np.zeros((len(maps) // len(members), *maps.shape[1:-2], size, size), "float32")
    for index, places in enumerate(members):
        out[..., places[:, None], places] = maps[index :: len(members)]
    return out


def plot_butterfly_maps(axes: Any, maps: np.ndarray) -> None:
    """Draw attention maps: the shade at row `n`, column `m` is what token `n` takes from `m`.

    Args:
        axes: Matplotlib axes, one for each map.
        maps: Attention maps `(maps, tokens, tokens)`.

    Example:

    >>> import numpy as np
    >>> from keras_permix.analysis import plot_butterfly_maps
    >>> from matplotlib.figure import Figure
    >>> axes = Figure().subplots(1, 2)
    >>> plot_butterfly_maps(axes, np.stack([np.eye(4), np.full((4, 4), 0.25)]))
    >>> [ax.images[0].get_array().shape for ax in axes]
    [(4, 4), (4, 4)]
    """
    for ax, weights in zip(axes, maps, strict=True):
        ax.imshow(weights, cmap="Greys", vmin=0, interpolation="nearest")
        ax.set(xticks=[], yticks=[])
