"""Define the base class of self-attention."""

from typing import Any

from keras import ops

from keras_permix._typing import Mask, Shape, Tensor
from keras_permix.layers.mixing.token_mixer import MixingLayer
from keras_permix.layers.parts.masks import clean_padding
from keras_permix.layers.parts.wrappers import flatten_map, make_dropout, unflatten_map


class SelfAttention(MixingLayer):
    """Project tokens to queries, keys and values per head, and heads back to tokens.

    A subclass implements `attend(query, key, value, mask)`, which returns the shape of `value`, or
    calls `split_heads` and `merge_heads` in its `call`. All subclasses but `LinformerAttention`
    have the same weights: one kernel `(channels, 3 * num_heads * head_dim)`, which holds q, k and v
    side by side with contiguous heads, its bias, and the output projection. `SoftmaxAttention`
    documents the arguments.
    """

    def __init__(
        self,
        num_heads: int = 8,
        head_dim: int | None = None,
        use_qkv_bias: bool = False,
        use_output_projection: bool = True,
        dropout: float = 0.0,
        use_output_bias: bool = True,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self._store(locals())

    def build(self, input_shape: Shape) -> None:
        width = self._tokens_shape(input_shape)[-1]
        if self.head_dim is None and width % self.num_heads:
            rule = f"`num_heads` must divide the input width {width} if `head_dim` is None."
            raise ValueError(f"{rule} Received: num_heads={self.num_heads}")
        inner = self.num_heads * (self.head_dim or width // self.num_heads)
        if not self.use_output_projection and inner != width:
            rule = "`num_heads` * `head_dim` must be the input width without an output projection."
            raise ValueError(f"{rule} Received: num_heads * head_dim={inner}, {width=}")
        self.qkv_dense = self._dense("qkv", 3 * inner, input_shape, use_bias=self.use_qkv_bias)
        if self.use_output_projection:
            merged_shape = (*input_shape[:-1], inner)
            self.output_dense = self._dense(
                "output", width, merged_shape, use_bias=self.use_output_bias
            )
            self.output_dropout = make_dropout(self.dropout, dtype=self.dtype_policy)

    def call(self, inputs: Tensor, mask: Mask = None) -> Tensor:
        tokens, mask = flatten_map(inputs, mask)
        attended = self.attend(*self.split_heads(tokens, mask), mask)
        return unflatten_map(self.merge_heads(attended), inputs)

    def split_heads(self, inputs: Tensor, mask: Mask = None) -> tuple[Tensor, Tensor, Tensor]:
        """Return queries, keys and values, each `(batch, tokens, heads, head_dim)`."""
        qkv = self.qkv_dense(clean_padding(inputs, mask))
        head_dim = qkv.shape[2] // (3 * self.num_heads)
        shape = (*ops.shape(qkv)[:2], self.num_heads, head_dim)
        query, key, value = (ops.reshape(part, shape) for part in ops.split(qkv, 3, axis=-1))
        return query, key, value

    def merge_heads(self, attended: Tensor) -> Tensor:
        """Project `(batch, tokens, heads, head_dim)` to `(batch, tokens, channels)`."""
        inner = attended.shape[2] * attended.shape[3]
        merged = ops.reshape(attended, (*ops.shape(attended)[:2], inner))
        if not self.use_output_projection:
            return merged
        return self.output_dropout(self.output_dense(merged))
