"""Attend without a softmax (SimpleTRON)."""

from typing import Any

import keras

from keras_permix import ops
from keras_permix._typing import Mask, Tensor
from keras_permix.layers.attention.self_attention import SelfAttention
from keras_permix.layers.streaming import Streaming
from keras_permix.ops.reference.linear import full_precision
from keras_permix.ops.simple_attention import SCALES, simple_attention_stream


@keras.saving.register_keras_serializable("keras_permix")
class SimpleAttention(Streaming, SelfAttention):
    """Attend to tokens without a softmax, in time and memory linear in the tokens.

    For every head, `attended = query @ (key^T @ value) / sqrt(tokens)`. The weights match those of
    `SoftmaxAttention`; `set_weights` copies them. To freeze the projections, set
    `qkv_dense.trainable = False`.

    Inputs, outputs and `mask` are those of `SoftmaxAttention`. A query without real keys attends to
    nothing: its sum is zero. With `causal=True` the layer supports streaming (`initial_state`,
    `step`, `chunk`). Its state is one `head_dim` x `head_dim` matrix per head.

    Args:
        num_heads, head_dim, use_qkv_bias: See `SoftmaxAttention`. The shapes of weights depend on
            `num_heads` only if `head_dim` is set.
        use_output_projection: See `SoftmaxAttention`. The paper calls it "linear layer behind the
            q-k-v product". If False, no dropout is applied.
        dropout: Rate of the dropout after the output projection, in `[0, 1)`.
        scale: "length" divides by the square root of the number of tokens, including padding; with
            `causal`, of those up to the query. "valid" counts only real tokens. `None` does not
            divide.
        causal: Whether a token attends only to itself and earlier tokens (not in the paper).
        use_output_bias: Whether the output projection has a bias (keyword only).

    Raises:
        ValueError: for an argument out of range, or an input width that the heads do not divide.

    Example:
        >>> import numpy as np
        >>> from keras_permix.layers import SimpleAttention
        >>> tuple(SimpleAttention(num_heads=4)(np.ones((2, 64, 32), "float32")).shape)
        (2, 64, 32)

    Reference: Yorsh et al., "SimpleTRON", 2022, arXiv:2111.15588.
    """

    def __init__(
        self,
        num_heads: int = 8,
        head_dim: int | None = None,
        use_qkv_bias: bool = True,
        use_output_projection: bool = True,
        dropout: float = 0.0,
        scale: str | None = "length",
        causal: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(
            num_heads, head_dim, use_qkv_bias, use_output_projection, dropout, **kwargs
        )
        self._store(locals(), scale=SCALES)

    def make_state(self, batch_size: int) -> dict[str, Tensor]:
        if not self.causal:
            raise ValueError("`initial_state` requires causal=True. Received: causal=False")
        head_dim = self.qkv_dense.units // (3 * self.num_heads)
        shape = (batch_size, self.num_heads, head_dim, head_dim)
        return {
            "memory": keras.ops.zeros(shape, full_precision(self.compute_dtype)),
            "seen": keras.ops.zeros((batch_size,), "int32"),
        }

    def read(self, tokens: Tensor, state: Any, mask: Mask) -> tuple[Tensor, Any]:
        query, key, value = self.split_heads(tokens, mask)
        attended, memory = simple_attention_stream(query, key, value, state["memory"], mask)
        counts_all = mask is None or self.scale == "length"
        real = keras.ops.ones_like(tokens[..., 0]) if counts_all else mask
        seen = state["seen"][:, None] + keras.ops.cumsum(keras.ops.cast(real, "int32"), axis=1)
        if self.scale is not None:
            count = keras.ops.cast(keras.ops.maximum(seen, 1), attended.dtype)
            attended = attended / keras.ops.sqrt(count)[..., None, None]
        outputs = self.merge_heads(keras.ops.cast(attended, value.dtype))
        return outputs, {"memory": memory, "seen": seen[:, -1]}

    def attend(self, query: Tensor, key: Tensor, value: Tensor, mask: Mask = None) -> Tensor:
        return ops.simple_attention(
            query, key, value, mask=mask, scale=self.scale, causal=self.causal
        )
