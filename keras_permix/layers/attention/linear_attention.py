"""Attention through positive features in place of a softmax: linear in the tokens."""

from typing import Any

import keras
from keras import ops

from keras_permix.layers.attention.self_attention import SelfAttention
from keras_permix.layers.parts.maps import flatten_map, unflatten_map
from keras_permix.layers.parts.masks import visible_keys
from keras_permix.ops.reference.precision import full_precision


@keras.saving.register_keras_serializable("keras_permix")
class LinearAttention(SelfAttention):
    """Multi-head self-attention through `elu(x) + 1`, in time and memory linear in the tokens.

    For every head `attended = f(query) @ (f(key)^T @ value)`, each query's row divided by
    `f(query) @ sum(f(key))`, where `f(x) = elu(x) + 1`. The weights are those of
    `SoftmaxAttention`.

    Input and output: `(batch, tokens, channels)`. A mask `(batch, tokens)` is True at real tokens;
    the others are never attended to. A sample without real tokens is attended to as if nothing
    were masked.

    Args:
        num_heads, head_dim, use_qkv_bias, use_output_projection, dropout: See `SoftmaxAttention`;
            there is no map for dropout to act on.

    Raises:
        ValueError: for an argument out of range, or a width that the heads do not fit.

    Example:

    >>> import numpy as np
    >>> from keras_permix.layers import LinearAttention
    >>> tuple(LinearAttention(num_heads=4)(np.ones((2, 64, 32), "float32")).shape)
    (2, 64, 32)

    Source: Katharopoulos et al., "Transformers are RNNs", 2020, equations (5) and (7).
    """

    def call(self, inputs: Any, mask: Any = None) -> Any:
        tokens, mask = flatten_map(inputs, mask)
        attended = linear_attention(*self.split_heads(tokens), mask=mask)
        return unflatten_map(self.merge_heads(attended), inputs)


def linear_attention(query: Any, key: Any, value: Any, mask: Any = None) -> Any:
    """Attention of `LinearAttention`, from and to `(batch, tokens, heads, head_dim)`."""
    return attend_by_features(ops.elu(query) + 1, ops.elu(key) + 1, value, mask)


def attend_by_features(query: Any, key: Any, value: Any, mask: Any = None) -> Any:
    """Attend by products of positive features, keys and values first.

    Args:
        query, key: Features `(batch, tokens, heads, features)`, none of them negative.
        value: `(batch, tokens, heads, head_dim)`.
        mask: Booleans `(batch, tokens)`, True at real tokens, or `None`.

    Returns:
        A tensor like `value`.
    """
    if mask is not None:
        real = visible_keys(ops.cast(mask, "bool"))[:, :, None, None]
        key = ops.where(real, key, ops.zeros_like(key))
    precise = full_precision(value.dtype)
    # Before the sums over the tokens, which float16 might not hold; it cancels out.
    scale = ops.rsqrt(ops.cast(ops.maximum(ops.shape(key)[1], 1), precise))
    key = key * ops.cast(scale, key.dtype)
    memory = ops.einsum("bnhk,bnhv->bhkv", key, value)
    attended = ops.einsum("bnhk,bhkv->bnhv", query, memory)
    query, key = ops.cast(query, precise), ops.cast(key, precise)
    norm = ops.einsum("bnhk,bhk->bnh", query, ops.sum(key, axis=1))
    norm = norm + 1e-30  # where all features vanish, which float16 could not say
    return ops.cast(ops.cast(attended, precise) / norm[..., None], value.dtype)
