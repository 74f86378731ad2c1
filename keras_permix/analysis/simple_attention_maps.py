"""What a `SimpleAttention` layer attends to, as matrices and as a picture."""

from collections.abc import Sequence
from numbers import Integral
from typing import Any

import numpy as np
from keras import ops

from keras_permix._typing import Layer, Mask, Tensor


def simple_attention_maps(
    layer: Layer,
    tokens: Tensor,
    mask: Mask = None,
    heads: int | slice | Sequence[int] | None = None,
) -> np.ndarray:
    """Attention maps of a `SimpleAttention` layer for given tokens.

    `maps[b, h] @ values[b, :, h]` is what the layer makes of the values of head `h`: the products
    of queries and keys, scaled as the layer does. There is no softmax, so a map has values of
    both signs, and its rows have any sum. The layer itself never makes a map; here they take
    memory quadratic in the tokens.

    Args:
        layer: A built `SimpleAttention` layer.
        tokens: What the layer takes, `(batch, tokens, channels)`.
        mask: Booleans `(batch, tokens)`, True for real tokens; the columns of the others are 0.
        heads: Indices of heads. `None`: all of them.

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

    Source: Yorsh et al., "SimpleTRON", 2022.
    """
    if not hasattr(layer, "attend") or not hasattr(layer, "split_heads"):
        raise TypeError(
            "`layer` must be a built layer that attends without softmax, SimpleAttention. "
            f"Received: layer={type(layer).__name__}"
        )
    query, key, value = layer.split_heads(ops.convert_to_tensor(tokens))
    places = ops.eye(value.shape[1], dtype=value.dtype)[None, :, None]
    # What is linear in the values gives its matrix where the values are the unit vectors.
    columns = ops.broadcast_to(places, (*value.shape[:3], value.shape[1]))
    maps = ops.transpose(layer.attend(query, key, columns, mask), (0, 2, 1, 3))
    maps = ops.convert_to_numpy(ops.cast(maps, "float32"))
    if heads is None:
        return maps
    return maps[:, [heads] if isinstance(heads, Integral) else heads]


def plot_simple_attention_maps(axes: Any, maps: np.ndarray) -> None:
    """Draw maps with rows for queries and columns for keys: red adds a value, blue takes it off.

    The colors of all maps share one scale, white at zero.

    Args:
        axes: Matplotlib axes, one for each map.
        maps: Attention maps `(maps, tokens, tokens)`.

    Example:

    >>> import numpy as np
    >>> from keras_permix.analysis import plot_simple_attention_maps
    >>> from matplotlib.figure import Figure
    >>> axes = Figure().subplots(1, 2)
    >>> plot_simple_attention_maps(axes, np.stack([np.eye(4), -2 * np.eye(4)]))
    >>> [float(ax.images[0].norm.vmax) for ax in axes]
    [2.0, 2.0]
    """
    top = abs(maps).max() or 1.0
    for ax, matrix in zip(axes, maps, strict=True):
        ax.imshow(matrix, cmap="RdBu_r", vmin=-top, vmax=top, interpolation="nearest")
        ax.set(xticks=[], yticks=[])
