"""Attend with a softmax."""

from functools import reduce
from typing import Any

import keras
from keras import ops

from keras_permix._typing import Mask, Shape, Tensor
from keras_permix.layers.attention.self_attention import SelfAttention
from keras_permix.layers.parts.masks import masked_softmax, visible_keys
from keras_permix.layers.parts.wrappers import flatten_map, make_dropout, unflatten_map
from keras_permix.ops.reference.linear import full_precision


@keras.saving.register_keras_serializable("keras_permix")
class SoftmaxAttention(SelfAttention):
    """Attend to all tokens with multi-head softmax attention.

    One kernel `(channels, 3 * num_heads * head_dim)` projects to queries, keys and values, in this
    order, with contiguous heads. Unlike in `keras.layers.MultiHeadAttention`, the biases of the
    fused and the output projection are set separately.

    Input and output: `(batch, tokens, channels)`, or maps `(batch, rows, columns, channels)`, whose
    tokens are ordered by rows. These masks are supported:

    * `mask` `(batch, tokens)`, or of the shape of a map, is True at real tokens. Padding is never
      attended to.
    * `attention_mask` `(batch, heads, tokens, tokens)`, `(batch, tokens, tokens)` or
      `(tokens, tokens)`, where an axis may be 1, is True where a query may attend to a key.
    * `use_causal_mask=True` restricts every query to itself and earlier tokens.

    A query without visible keys attends as if nothing were masked, except that a causal mask still
    applies.

    Args:
        num_heads: Number of heads.
        head_dim: Channels per head. `None`: input width / `num_heads`; then `num_heads` must divide
            the input width.
        use_qkv_bias: Whether the fused projection has a bias.
        use_output_projection: Whether to project back to the input width. If False, `num_heads` *
            `head_dim` must be the input width.
        dropout: Rate of the dropout on the attention map and after the output projection.
        fused: Whether to use `keras.ops.dot_product_attention`, which is flash attention where the
            backend supports it. Dropout on the map and float64 are never fused. `False` is faster
            for short bfloat16 sequences on a CPU with PyTorch.
        use_output_bias: Whether the output projection has a bias (keyword only).

    Raises:
        ValueError: for an argument out of range, or an input width that the heads do not divide.

    Example:
        >>> import numpy as np
        >>> from keras_permix.layers import SoftmaxAttention
        >>> tuple(SoftmaxAttention(num_heads=4)(np.ones((2, 64, 32), "float32")).shape)
        (2, 64, 32)

    Reference: Vaswani et al., "Attention Is All You Need", 2017, arXiv:1706.03762; the variant of
    the ViT in the released code of CSP.
    """

    def __init__(
        self,
        num_heads: int = 8,
        head_dim: int | None = None,
        use_qkv_bias: bool = False,
        use_output_projection: bool = True,
        dropout: float = 0.0,
        fused: bool = True,
        **kwargs: Any,
    ) -> None:
        super().__init__(
            num_heads, head_dim, use_qkv_bias, use_output_projection, dropout, **kwargs
        )
        self._store(locals())

    def build(self, input_shape: Shape) -> None:
        super().build(input_shape)
        self.map_dropout = make_dropout(self.dropout, dtype=self.dtype_policy)

    def call(
        self,
        inputs: Tensor,
        mask: Mask = None,
        attention_mask: Mask = None,
        use_causal_mask: bool = False,
        training: bool | None = None,
        inputs_mask: Mask = None,  # that of Keras, if there are several tensors
    ) -> Tensor:
        tokens, mask = flatten_map(inputs, inputs_mask if mask is None else mask)
        query, key, value = self.split_heads(tokens, mask)
        fused = self.fused and can_fuse(query) and not (self.dropout and training)
        causal = fused and bool(use_causal_mask) and mask is None and attention_mask is None
        visible = None if causal else _visible(tokens, mask, attention_mask, use_causal_mask)
        if fused:
            attended = ops.dot_product_attention(query, key, value, mask=visible, is_causal=causal)
        else:
            weights = self.map_dropout(softmax_weights(query, key, visible))
            attended = ops.einsum("bhqk,bkhd->bqhd", weights, value)
        return unflatten_map(self.merge_heads(attended), inputs)

    def attention_maps(
        self,
        inputs: Tensor,
        mask: Mask = None,
        attention_mask: Mask = None,
        use_causal_mask: bool = False,
    ) -> Tensor:
        """Return the attention weights `(batch, heads, tokens, tokens)`."""
        tokens, mask = flatten_map(inputs, mask)
        query, key, _ = self.split_heads(tokens, mask)
        visible = _visible(tokens, mask, attention_mask, use_causal_mask)
        return softmax_weights(query, key, visible)


def _visible(inputs, mask, attention_mask, causal):
    """Combine the masks to booleans that broadcast to the maps, or return None."""
    masks = []
    if mask is not None:
        masks.append(ops.cast(mask, "bool")[:, None, None, :])
    if attention_mask is not None:
        attention_mask = ops.cast(attention_mask, "bool")
        for _ in range(4 - len(attention_mask.shape)):  # add axes of heads and samples
            attention_mask = ops.expand_dims(attention_mask, axis=-3)
        masks.append(attention_mask)
    before = None
    if causal:
        position = ops.arange(0, ops.shape(inputs)[1])  # jax2onnx requires an explicit start
        before = (position <= position[:, None])[None, None]
        masks.append(before)
    return visible_keys(reduce(ops.logical_and, masks), before) if masks else None


def can_fuse(query):
    """Return whether Keras' attention keeps the dtype; PyTorch does not keep float64."""
    return full_precision(query.dtype) == "float32"


def softmax_weights(query, key, visible=None):
    """Return weights (batch, heads, queries, keys) of (batch, tokens, heads, head_dim) tensors."""
    query = query * query.shape[-1] ** -0.5  # before the product, which may overflow in float16
    return masked_softmax(ops.einsum("bqhd,bkhd->bhqk", query, key), visible)
