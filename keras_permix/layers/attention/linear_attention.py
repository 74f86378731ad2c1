"""Attention through positive features in place of a softmax: linear in the tokens."""

from typing import Any

import keras
from keras import ops

from keras_permix.layers.attention.self_attention import SelfAttention
from keras_permix.layers.parts.maps import flatten_map, unflatten_map
from keras_permix.layers.parts.masks import visible_keys
from keras_permix.ops.dispatch.checks import is_empty
from keras_permix.ops.reference.linear import full_precision


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
        if is_empty(inputs):  # which has no largest feature
            return ops.zeros_like(inputs)
        tokens, mask = flatten_map(inputs, mask)
        attended = linear_attention(*self.split_heads(tokens, mask), mask=mask)
        return unflatten_map(self.merge_heads(attended), inputs)


def linear_attention(query: Any, key: Any, value: Any, mask: Any = None) -> Any:
    """Attention of `LinearAttention`, from and to `(batch, tokens, heads, head_dim)`."""
    real = None if mask is None else visible_keys(ops.cast(mask, "bool"))
    precise = full_precision(value.dtype)
    query, key = ops.cast(query, precise), hide_padding(ops.cast(key, precise), real)
    return attend_by_features(_features(query, -1), _features(key, (1, 3)), value)


def _features(x, axes):
    """`elu(x) + 1` where any on `axes` is 1 or more, else times what makes the largest 1.

    The scale cancels out. Without it, features near 0 would round to 0, but their gradient would
    not.
    """
    shift = ops.stop_gradient(-ops.relu(-ops.max(x, axis=axes, keepdims=True)))
    return ops.where(x > 0, x + 1, ops.exp(-ops.relu(-x) - shift))


def hide_padding(exponents: Any, real: Any) -> Any:
    """-inf at keys that are not `real`, booleans `(batch, tokens)` or `None`: features of 0."""
    if real is None:
        return exponents
    return ops.where(real[:, :, None, None], exponents, ops.cast(-float("inf"), exponents.dtype))


def attend_by_features(query: Any, key: Any, value: Any) -> Any:
    """Attend by products of positive features, keys and values first.

    Args:
        query: Features `(batch, tokens, heads, features)`, in float32 or float64, the largest of a
            token 1 or more.
        key: The same, the largest of a head 1 or more, and 0 for padding.
        value: `(batch, tokens, heads, head_dim)`.

    Returns:
        A tensor like `value`.
    """
    precise = query.dtype
    # Products in float16 could overflow, and so could their gradients.
    product = precise if keras.backend.standardize_dtype(value.dtype) == "float16" else value.dtype
    memory = ops.einsum("bnhk,bnhv->bhkv", ops.cast(key, product), ops.cast(value, product))
    attended = ops.einsum("bnhk,bhkv->bnhv", ops.cast(query, product), memory)
    norm = ops.einsum("bnhk,bhk->bnh", query, ops.sum(key, axis=1))
    least = ops.cast(1e-20, precise)  # where no feature of a query is one of any key
    norm = ops.where(norm > least, norm, least)
    return ops.cast(ops.cast(attended, precise) / norm[..., None], value.dtype)
