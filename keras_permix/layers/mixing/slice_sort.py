"""Sort each channel along the tokens, as Sliceformer does."""

from typing import Any

import keras

from keras_permix import ops
from keras_permix._typing import Mask, Tensor
from keras_permix.layers.mixing.token_mixer import TokenMixer
from keras_permix.ops import interleave_order

ORDERS = ("ascend", "descend", "interleave", "interleave_haar")


def descending_channels(layer, channels, head_dim):
    """Return whether a layer with an `order` sorts descending, in general or for each channel."""
    if not layer.order.startswith("interleave"):
        return layer.order == "descend"
    at = dict(layer_index=layer.layer_index, num_layers=layer.num_layers)
    return interleave_order(layer.order, channels, **at, head_dim=head_dim)


@keras.saving.register_keras_serializable("keras_permix")
class SliceSort(TokenMixer):
    """Sort each channel along all tokens.

    Computes `outputs = sort(inputs @ Wv) @ Wo + bo`, with each channel sorted independently.

    Inputs, outputs and masks are those of `CSP`: only real tokens are sorted, and padded values
    become zero before the output projection.

    Args:
        order: "ascend", "descend", "interleave" (the paper's sine rule over all channels),
            "interleave_haar" (the released code's rule per head) or "max_exchange" (swap the
            maximum with the first token instead of sorting).
        inner_dim, use_value_bias, use_output_projection, dropout: See `CSP`.
        layer_index: Index of this layer, from 0, used by the interleaved orders.
        num_layers: Number of layers of the model, used by the interleaved orders.
        head_dim: Channels per head, used by "interleave_haar". `None`: all channels.
        use_value_projection, use_output_bias: See `CSP` (keyword only).

    Example:
        >>> import numpy as np
        >>> from keras_permix.layers import SliceSort
        >>> layer = SliceSort("interleave", layer_index=0, num_layers=6)
        >>> tuple(layer(np.ones((2, 65, 32), "float32")).shape)
        (2, 65, 32)

    Reference: Yuan & Xu, "Sliceformer", 2023, arXiv:2310.17683, equations (3), (5) and (6);
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
        self._store(locals(), order=(*ORDERS, "max_exchange"))

    def mix(self, values: Tensor, mask: Mask = None) -> Tensor:
        if self.order == "max_exchange":
            return ops.max_exchange(values, mask=mask)
        descending = descending_channels(self, values.shape[-1], self.head_dim)
        return ops.slice_sort(values, descending, mask=mask)
