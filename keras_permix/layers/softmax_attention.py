"""Softmax attention with one fused projection: what the permuting mixers are compared with."""

import keras
from keras import ops

from keras_permix.layers.checks import check_positive, check_rate, check_tokens
from keras_permix.layers.dropout import make_dropout


@keras.saving.register_keras_serializable("keras_permix")
class SoftmaxAttention(keras.layers.Layer):
    """Multi-head softmax self-attention as the papers' ViT has it.

    Queries, keys and values come from one kernel `(channels, 3 * num_heads * head_dim)`, q, k and v
    side by side with the heads contiguous inside each. The output projection always has a bias,
    which is why `keras.layers.MultiHeadAttention` (one switch for all biases) cannot stand here.

    Input and output: `(batch, tokens, channels)`. A mask `(batch, tokens)` is True at real tokens;
    the others are never attended to.

    Args:
        num_heads: Number of heads.
        head_dim: Channels of a head. `None`: input width / `num_heads`, which must be whole.
        use_qkv_bias: Whether the fused projection has a bias.
        dropout: Rate of the dropout on the attention map and after the output projection.
        fused: Whether to use `keras.ops.dot_product_attention`, which is flash attention where the
            backend has it. Dropout on the map always needs the plain form, two products around a
            softmax; that is also faster for short sequences in bfloat16 on a CPU under PyTorch.

    Raises:
        ValueError: for an argument out of range, or a width that `num_heads` does not divide.

    Example:

    >>> import numpy as np
    >>> from keras_permix.layers import SoftmaxAttention
    >>> tuple(SoftmaxAttention(num_heads=4)(np.ones((2, 64, 32), "float32")).shape)
    (2, 64, 32)

    Source: Vaswani et al., 2017; the variant of the CSP code's ViT.
    """

    def __init__(
        self, num_heads=8, head_dim=None, use_qkv_bias=False, dropout=0.0, fused=True, **kwargs
    ):
        super().__init__(**kwargs)
        self.supports_masking = True
        self.num_heads = check_positive("num_heads", num_heads)
        self.head_dim = None if head_dim is None else check_positive("head_dim", head_dim)
        self.use_qkv_bias = use_qkv_bias
        self.dropout = check_rate("dropout", dropout)
        self.fused = fused

    def build(self, input_shape):
        width = check_tokens("SoftmaxAttention", input_shape)[-1]
        if self.head_dim is None and width % self.num_heads:
            raise ValueError(
                "`num_heads` must divide the width of the input where `head_dim` is None. "
                f"Received: num_heads={self.num_heads}, input_shape={tuple(input_shape)}"
            )
        inner = self.num_heads * (self.head_dim or width // self.num_heads)
        self.qkv_dense = keras.layers.Dense(
            3 * inner, use_bias=self.use_qkv_bias, dtype=self.dtype_policy, name="qkv"
        )
        self.qkv_dense.build(input_shape)
        self.output_dense = keras.layers.Dense(width, dtype=self.dtype_policy, name="output")
        self.output_dense.build((*input_shape[:-1], inner))
        self.map_dropout = make_dropout(self.dropout, dtype=self.dtype_policy)
        self.output_dropout = make_dropout(self.dropout, dtype=self.dtype_policy)

    def call(self, inputs, mask=None, training=None):
        qkv = self.qkv_dense(inputs)
        tokens, head_dim = qkv.shape[1], qkv.shape[2] // (3 * self.num_heads)
        shape = (-1, ops.shape(qkv)[1] if tokens is None else tokens, self.num_heads, head_dim)
        query, key, value = (ops.reshape(part, shape) for part in ops.split(qkv, 3, axis=-1))
        key_mask = None if mask is None else ops.cast(mask, "bool")[:, None, None, :]
        if self.fused and not (self.dropout and training):
            attended = ops.dot_product_attention(query, key, value, mask=key_mask)
        else:
            attended = self._attend_plainly(query, key, value, key_mask)
        merged = ops.reshape(attended, (*shape[:2], self.num_heads * head_dim))
        return self.output_dropout(self.output_dense(merged))

    def _attend_plainly(self, query, key, value, key_mask):
        scores = ops.einsum("bqhd,bkhd->bhqk", query, key) * query.shape[-1] ** -0.5
        if key_mask is not None:
            scores = ops.where(key_mask, scores, ops.cast(-float("inf"), scores.dtype))
        weights = self.map_dropout(ops.softmax(scores))
        return ops.einsum("bhqk,bkhd->bqhd", weights, value)

    def compute_output_shape(self, input_shape):
        return tuple(input_shape)

    def get_config(self):
        return {
            **super().get_config(),
            "num_heads": self.num_heads,
            "head_dim": self.head_dim,
            "use_qkv_bias": self.use_qkv_bias,
            "dropout": self.dropout,
            "fused": self.fused,
        }
