"""Attend within blocks of neighboring tokens."""

from typing import Any

import keras
from keras import ops

from keras_permix.layers.attention.softmax_attention import SoftmaxAttention
from keras_permix.layers.parts.masks import clean_padding
from keras_permix.layers.parts.wrappers import flatten_map, unflatten_map
from keras_permix.ops.reference.packing import cut, join


@keras.saving.register_keras_serializable("keras_permix")
class LocalAttention(SoftmaxAttention):
    """Attend with softmax attention within blocks of tokens.

    The sequence is cut into blocks of `block_size` tokens, and the last block is padded. Tokens
    attend only to tokens of the same block; a class token at position 0 attends to the first block.
    For a fixed `block_size`, time and memory are linear in the tokens. The parameters match those
    of `SoftmaxAttention`.

    Inputs, outputs and `mask` are those of `SoftmaxAttention`.

    Args:
        num_heads, head_dim, use_qkv_bias, use_output_projection, dropout, fused: See
            `SoftmaxAttention`.
        block_size: Tokens per block. `None`: the smallest power of two not below the square root of
            the number of tokens, which must be known.

    Raises:
        ValueError: for an argument out of range, an input width that the heads do not divide, or an
            unknown number of tokens if `block_size` is `None`.

    Example:
        >>> import numpy as np
        >>> from keras_permix.layers import LocalAttention
        >>> layer = LocalAttention(num_heads=4, block_size=16)
        >>> tuple(layer(np.ones((2, 50, 32), "float32")).shape)
        (2, 50, 32)

    Reference: Liu et al., "Generating Wikipedia by Summarizing Long Sequences", 2018,
    arXiv:1801.10198, section 4.2.3.
    """

    def __init__(self, num_heads: int = 8, block_size: int | None = 64, **kwargs: Any) -> None:
        super().__init__(num_heads, **kwargs)
        self._store(locals())

    def call(self, inputs: Any, mask: Any = None, training: bool | None = None) -> Any:  # type: ignore[override]
        tokens, mask = flatten_map(inputs, mask)
        blocks, visible = self._cut(tokens, mask)
        mixed = super().call(blocks, mask=visible, training=training)
        mixed = join(self._samples(mixed, tokens))[:, : ops.shape(tokens)[1]]
        return unflatten_map(mixed, inputs)

    def attention_maps(self, inputs: Any, mask: Any = None) -> Any:  # type: ignore[override]
        """Return the attention weights `(batch, blocks, heads, block_size, block_size)`."""
        tokens, mask = flatten_map(inputs, mask)
        return self._samples(super().attention_maps(*self._cut(tokens, mask)), tokens)

    def tokens_per_block(self, tokens: Any) -> int:
        """Return the size of a block for a sequence of `tokens` tokens."""
        if self.block_size is None and tokens is None:
            rule = "`block_size` must be set if the number of tokens is unknown."
            raise ValueError(f"{rule} Received: block_size=None")
        return self.block_size or root_block(tokens)

    def _cut(self, inputs, mask):
        """Return the blocks as samples of a larger batch, and a mask of visible tokens or None."""
        size, inputs = self.tokens_per_block(inputs.shape[1]), clean_padding(inputs, mask)
        length = inputs.shape[1]
        if mask is None and isinstance(length, int) and length % size == 0:
            return ops.reshape(inputs, (-1, size, inputs.shape[2])), None
        inside = ops.ones(ops.shape(inputs)[:2], "int32")  # `cut` fills the last block with 0
        real = inside if mask is None else ops.cast(mask, "int32")
        pieces = (cut(x, size) for x in (inputs, real, inside))
        blocks, real, inside = (ops.reshape(x, (-1, *ops.shape(x)[2:])) for x in pieces)
        visible = ops.where(ops.any(real, axis=1, keepdims=True), real, inside)
        return blocks, ops.cast(visible, "bool")

    def _samples(self, blocks, tokens):
        """Split the batch axis of blocks into samples and blocks: (batch, blocks, …)."""
        batch, length = ops.shape(tokens)[:2]
        count = -(-length // self.tokens_per_block(tokens.shape[1]))
        return ops.reshape(blocks, (batch, count, *ops.shape(blocks)[1:]))


def root_block(tokens: int) -> int:
    """Return the smallest power of two not below the square root of `tokens`."""
    return 2 ** ((int(tokens - 1).bit_length() + 1) // 2)
