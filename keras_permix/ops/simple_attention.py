"""Attend without softmax, in time linear in the tokens."""

from functools import partial

from keras import ops
from keras.backend import standardize_dtype

from keras_permix._typing import Mask, Tensor
from keras_permix.ops.dispatch.checks import as_tensor, check_floating, check_mask
from keras_permix.ops.dispatch.dispatch import dispatch, op
from keras_permix.ops.reference.linear import full_precision, matmul
from keras_permix.ops.reference.packing import cut, join
from keras_permix.utils.checks import check_choice, fits

SCALES = ("length", "valid", None)
SMALLEST_CHUNK = 32


@op
def simple_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    *,
    mask: Mask = None,
    scale: str | None = "length",
    causal: bool = False,
    implementation: str | None = None,
) -> Tensor:
    """Attend without softmax: `query @ (key^T @ value) / sqrt(tokens)`, for every head.

    Equals `(query @ key^T) @ value` in O(tokens) time and memory, without an attention map. The
    causal form, an extension of this package, runs over chunks of `max(head_dim, 32)` tokens. It
    computes the map within a chunk and adds the sum of `key^T @ value` over earlier chunks. Its
    memory is a small multiple of its input.

    Args:
        query: Tensor of shape (batch, tokens, heads, head_dim), floating.
        key: Tensor like `query`.
        value: Tensor of shape (batch, tokens, heads, value_dim) and the dtype of `query`.
        mask: Boolean tensor of shape (batch, tokens), True for real tokens. Keys and values of
            padding count as zeros; its queries attend like any other.
        scale: `"length"` divides by the square root of the number of tokens, including padding;
            in the causal form, of those up to the query. `"valid"` counts only real tokens. None
            does not scale.
        causal: Whether a query attends only to keys up to its position.
        implementation: A name that `explain` lists. None selects the first that supports the call.

    Returns:
        A tensor like `value`. Zero samples or tokens are allowed.

    Raises:
        ValueError: for wrong shapes, integers, different dtypes, or an unknown `scale`.

    Example:
        >>> import keras
        >>> from keras_permix.ops import simple_attention
        >>> x = keras.ops.ones((1, 4, 2, 3))
        >>> keras.ops.convert_to_numpy(simple_attention(x, x, x))[0, :, 0, 0].tolist()
        [6.0, 6.0, 6.0, 6.0]
        >>> keras.ops.convert_to_numpy(simple_attention(x, x, x, causal=True))[0, :, 0, 0].tolist()
        [3.0, 4.242640495300293, 5.196152210235596, 6.0]

    Reference: Yorsh et al., "SimpleTRON", 2022, arXiv:2111.15588.
    """
    query, key, value = map(as_tensor, (query, key, value))
    shapes = [tuple(x.shape) for x in (query, key, value)]
    of_value = (*shapes[0][:3], None)
    if len(shapes[0]) != 4 or not fits(shapes[1], shapes[0]) or not fits(shapes[2], of_value):
        raise ValueError(
            "`query`, `key` and `value` must have the same shape (batch, tokens, heads, channels), "
            f"except for the channels of `value`. Received: {shapes=}"
        )
    check_floating(query, "query")
    dtypes = [standardize_dtype(x.dtype) for x in (query, key, value)]
    if len(set(dtypes)) > 1:
        raise ValueError(f"`query`, `key` and `value` must have the same dtype. Received: {dtypes}")
    return dispatch(
        "simple_attention",
        simple_attention_reference,
        query,
        key,
        value,
        mask=check_mask(mask, query, of="query"),
        like=2,
        implementation=implementation,
        scale=check_choice("scale", scale, SCALES),
        causal=causal,
    )


def simple_attention_reference(query, key, value, mask, *, scale, causal):
    if mask is not None:
        real = ops.cast(mask, "bool")[..., None, None]
        key = ops.where(real, key, ops.zeros_like(key))
        value = ops.where(real, value, ops.zeros_like(value))
    if scale is not None:  # before the sum over tokens, which could overflow in float16
        key = key / ops.cast(_root(ops.shape(key)[1], key.dtype), key.dtype)
    attended = (_attend_causally if causal else _attend)(query, key, value)
    counted = mask if scale == "valid" else None
    if scale is not None and (causal or counted is not None):
        attended = attended * _length_to_seen(value, counted, causal)
    return attended


def simple_attention_stream(query, key, value, state, mask=None):
    """Continue causal attention without a scale, and return `(outputs, state)`.

    `state`, (batch, heads, head_dim, value_dim), is the sum of `key^T @ value` over the earlier
    tokens, initially zeros. Both results are in float32 or float64.
    """
    query, key, value = (ops.cast(x, full_precision(x.dtype)) for x in (query, key, value))
    if mask is not None:
        key = ops.where(ops.cast(mask, "bool")[..., None, None], key, ops.zeros_like(key))
    outputs = simple_attention(query, key, value, scale=None, causal=True)
    outputs = outputs + ops.einsum("bnhd,bhde->bnhe", query, state)
    return outputs, state + ops.einsum("bnhd,bnhe->bhde", key, value)


def _attend(query, key, value):
    # With heads in front, XLA computes matrix products faster than `einsum`.
    query, key, value = (ops.swapaxes(x, 1, 2) for x in (query, key, value))
    states = matmul(ops.swapaxes(key, 2, 3), value)
    return ops.swapaxes(matmul(query, states), 1, 2)


def _attend_causally(query, key, value):
    size = max(query.shape[-1], SMALLEST_CHUNK)
    if isinstance(query.shape[1], int):  # not a symbol of an exporter
        size = min(size, max(query.shape[1], 1))
    query_chunks, key, value = (cut(x, size) for x in (query, key, value))
    within = ops.tril(ops.einsum("bcnhd,bcmhd->bchnm", query_chunks, key))
    out = ops.einsum("bchnm,bcmhe->bcnhe", within, value)
    before = _sum_of_earlier(ops.einsum("bcnhd,bcnhe->bchde", key, value))
    out = out + ops.einsum("bcnhd,bchde->bcnhe", query_chunks, before)
    return join(out)[:, : ops.shape(query)[1]]


def _sum_of_earlier(states):
    """Return the sum over the earlier chunks for every chunk, computed in at least float32."""
    shifted = ops.pad(states, ((0, 0), (1, 0), (0, 0), (0, 0), (0, 0)))[:, :-1]
    shifted = ops.cast(shifted, full_precision(states.dtype))
    # On PyTorch, Keras' `cumsum` would compute float64 in float32.
    add = getattr(shifted, "cumsum", partial(ops.cumsum, shifted))
    return ops.cast(add(axis=1), states.dtype)


def _length_to_seen(value, mask, causal):
    """Return the factor that converts a scale by all tokens to one by those of each query."""
    real = ops.ones(ops.shape(value)[:2], "int32") if mask is None else ops.cast(mask, "int32")
    seen = ops.cumsum(real, axis=1) if causal else ops.sum(real, axis=1, keepdims=True)
    ratio = _root(ops.shape(value)[1], value.dtype) / _root(ops.maximum(seen, 1), value.dtype)
    return ops.cast(ratio, value.dtype)[..., None, None]


def _root(count, dtype):
    return ops.sqrt(ops.cast(count, full_precision(dtype)))
