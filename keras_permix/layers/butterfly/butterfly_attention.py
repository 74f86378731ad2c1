"""Softmax attention within the blocks of a butterfly stage."""

from typing import Any

import keras

from keras_permix.layers.attention.local_attention import LocalAttention
from keras_permix.layers.parts.checks import check_blocks
from keras_permix.layers.parts.maps import flatten_map, tokens_shape, unflatten_map
from keras_permix.ops import butterfly_permute, butterfly_stages, butterfly_unpermute
from keras_permix.utils.checks import check_layer_index


@keras.saving.register_keras_serializable("keras_permix")
class ButterflyAttention(LocalAttention):
    """Multi-head softmax self-attention within blocks of tokens that lie a stride apart.

    The stride grows from layer to layer; with blocks of about the root of the number of tokens, two
    layers mix all of them. What else a Transformer layer does looks at each token alone, so this is
    `ButterflyBlock` around the whole layer. The weights are those of `SoftmaxAttention`.

    Input and output: `(batch, tokens, channels)`. A mask `(batch, tokens)` is True at real tokens;
    the others are never attended to. In a block without real tokens they attend as if nothing were
    masked. Which tokens share a block depends on how many there are, padding included.

    Args:
        num_heads, head_dim, use_qkv_bias, use_output_projection, dropout, fused: See
            `SoftmaxAttention`.
        block_size: Tokens per block, at least 2; it divides their number. `None`: the power of two
            at or above the root of that number, which must be known.
        layer_index: 0-based index of this layer, which is the butterfly's stage.
        num_layers: Number of layers of the model.

    Raises:
        ValueError: for an argument out of range, a width that the heads do not fit, or blocks that
            do not fill the tokens.

    Example:

    >>> import numpy as np
    >>> from keras_permix.layers import ButterflyAttention
    >>> layer = ButterflyAttention(num_heads=4, layer_index=1, num_layers=2)
    >>> tuple(layer(np.ones((2, 64, 32), "float32")).shape)
    (2, 64, 32)

    Source: Sapkota & Bhattarai, "Dimension Mixer", 2023.
    """

    def __init__(
        self,
        num_heads: int = 8,
        block_size: int | None = None,
        layer_index: int = 0,
        num_layers: int = 1,
        **kwargs: Any,
    ) -> None:
        super().__init__(num_heads, block_size, **kwargs)
        check_layer_index(layer_index, num_layers)
        self.layer_index = layer_index
        self.num_layers = num_layers

    def build(self, input_shape: tuple) -> None:
        super().build(input_shape)
        shape = tokens_shape(type(self).__name__, input_shape)
        tokens = shape[1]
        size = self.tokens_per_block(tokens)
        check_blocks(size, shape, 1)
        if tokens is not None:
            butterfly_stages(tokens, size)

    def call(  # type: ignore[override]  # as of its base
        self, inputs: Any, mask: Any = None, training: bool | None = None
    ) -> Any:
        tokens, mask = map(self._order, flatten_map(inputs, mask))
        return unflatten_map(self._order(super().call(tokens, mask, training), back=True), inputs)

    def attention_maps(self, inputs: Any, mask: Any = None) -> Any:  # type: ignore[override]
        """The weights `(batch, blocks, heads, block_size, block_size)`, in the blocks' order."""
        return super().attention_maps(*map(self._order, flatten_map(inputs, mask)))

    def _order(self, x, back=False):
        """Bring the tokens of every block together, or back to their places."""
        if x is None:
            return None
        order = butterfly_unpermute if back else butterfly_permute
        size = self.tokens_per_block(x.shape[1])
        return order(x, size, self.layer_index, axis=1, cyclic=True)

    def get_config(self) -> dict:
        return {
            **super().get_config(),
            "layer_index": self.layer_index,
            "num_layers": self.num_layers,
        }
