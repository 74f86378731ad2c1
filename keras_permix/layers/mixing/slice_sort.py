"""Sort each channel along the tokens, as Sliceformer does."""

from typing import Any

import keras
import numpy as np

from keras_permix import ops
from keras_permix._typing import Mask, Tensor
from keras_permix.layers.mixing.token_mixer import TokenMixer
from keras_permix.ops import interleave_order
from keras_permix.utils.checks import check_choice, check_layer_index

ORDERS = ("ascend", "descend", "interleave", "interleave_haar")


def order_to_descending(order, channels, *, layer_index, num_layers, head_dim=None):
    """Return whether to sort descending, as a bool or a bool array `(channels,)`.

    Args:
        order: One of `ORDERS`.
        channels, layer_index, num_layers, head_dim: See `keras_permix.ops.interleave_order`.
    """
    if order.startswith("interleave"):
        return interleave_order(
            order, channels, layer_index=layer_index, num_layers=num_layers, head_dim=head_dim
        )
    return order == "descend"


@keras.saving.register_keras_serializable("keras_permix")
class SliceSort(TokenMixer):
    """Sort each channel along all tokens.

    Computes `outputs = sort(inputs @ Wv) @ Wo + bo`, with each channel sorted independently.

    Input and output: `(batch, tokens, channels)`, or maps `(batch, rows, columns, channels)`, whose
    tokens are ordered by rows. A mask `(batch, tokens)`, or of the shape of a map, is True at real
    tokens. Only these are sorted, and padded values become zero before the output projection.

    Args:
        order: "ascend", "descend", "interleave" (the paper's sine rule over all channels),
            "interleave_haar" (the released code's rule per head) or "max_exchange" (swap the
            maximum with the first token instead of sorting).
        inner_dim: Width of the values. `None`: the input width.
        use_value_bias: Whether the projection to values has a bias.
        use_output_projection: Whether to project back to the input width. If False, `inner_dim`
            must be the input width, and no dropout is applied.
        dropout: Rate of the dropout after the output projection, in `[0, 1)`.
        layer_index: Index of this layer, from 0, used by the interleaved orders.
        num_layers: Number of layers of the model, used by the interleaved orders.
        head_dim: Channels per head, used by "interleave_haar". `None`: all channels.
        use_value_projection: Whether to project the input to values (keyword only).
        use_output_bias: Whether the output projection has a bias (keyword only).

    Raises:
        ValueError: for an argument out of range.

    Example:

    >>> import numpy as np
    >>> from keras_permix.layers import SliceSort
    >>> layer = SliceSort("interleave", layer_index=0, num_layers=6)
    >>> tuple(layer(np.ones((2, 65, 32), "float32")).shape)
    (2, 65, 32)

    Reference:
        Yuan and Xu, "Sliceformer: Make Multi-head Attention as Simple as Sorting in
        Discriminative Tasks", 2023, arXiv:2310.17683, equations (3), (5) and (6);
        "interleave_haar" and "max_exchange" as in the released code.
    """

    def __init__(
        self,
        order: str = "ascend",
        inner_dim: int | None = None,
        use_value_bias: bool = False,
        use_output_projection: bool = True,
        dropout: float = 0.0,
        layer_index: int = 0,
        num_layers: int = 1,
        head_dim: int | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(inner_dim, use_value_bias, use_output_projection, dropout, **kwargs)
        self.order = check_choice("order", order, (*ORDERS, "max_exchange"))
        check_layer_index(layer_index, num_layers)
        self.layer_index = layer_index
        self.num_layers = num_layers
        self.head_dim = head_dim

    def descending(self, channels: int) -> bool | np.ndarray:
        """Return whether to sort descending, as a bool or a bool array `(channels,)`."""
        facts = dict(
            layer_index=self.layer_index, num_layers=self.num_layers, head_dim=self.head_dim
        )
        return order_to_descending(self.order, channels, **facts)

    def mix(self, values: Tensor, mask: Mask = None) -> Tensor:
        if self.order == "max_exchange":
            return ops.max_exchange(values, mask=mask)
        return ops.slice_sort(values, self.descending(values.shape[-1]), mask=mask)
