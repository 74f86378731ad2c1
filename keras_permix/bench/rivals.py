"""What the operators and layers of this package are timed against."""

from collections.abc import Callable
from math import gcd, sqrt
from typing import Any

import keras
from keras import ops

from keras_permix._typing import Tensor

HEAD = 64  # channels


def in_heads(x: Tensor) -> Tensor:
    """Tokens in heads of up to 64 channels, (batch, tokens, heads, channels)."""
    batch, tokens, channels = x.shape
    return ops.reshape(x, (batch, tokens, -1, gcd(channels, HEAD)))


def on_heads(attend: Callable[[Tensor, Tensor, Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
    """The function of one tensor that is its own query, key and value."""

    def call(x):
        heads = in_heads(x)
        return ops.reshape(attend(heads, heads, heads), x.shape)

    return call


def quadratic_attention(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """What `simple_attention` computes, by a map of tokens by tokens."""
    weights = ops.einsum("bnhd,bmhd->bhnm", query, key) / sqrt(key.shape[1])
    return ops.einsum("bhnm,bmhd->bnhd", weights, value)


def linear_attention(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """Attention through `elu(x) + 1` in place of the softmax: O(tokens).

    Source: Katharopoulos et al., "Transformers are RNNs", 2020, equations (5) and (7).
    """
    query, key = ops.elu(query) + 1, ops.elu(key) + 1
    memory = ops.einsum("bnhk,bnhv->bhkv", key, value)
    norm = ops.einsum("bnhk,bhk->bnh", query, ops.sum(key, axis=1))
    return ops.einsum("bnhk,bhkv->bnhv", query, memory) / norm[..., None]


def fourier_transform(x: Tensor) -> Tensor:
    """The real part of a Fourier transform along tokens and channels: O(tokens log tokens).

    Source: Lee-Thorp et al., "FNet", 2021, equation (3).
    """
    precise = ops.cast(x, "float32")
    real, _ = ops.fft2((precise, ops.zeros_like(precise)))
    return ops.cast(real, x.dtype)


class LinearAttention(keras.layers.Layer):
    """`linear_attention` between two dense layers, the first of them fused."""

    def __init__(self, num_heads: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.num_heads = num_heads

    def build(self, input_shape: tuple[int, ...]) -> None:
        width = input_shape[-1]
        self.qkv_dense = keras.layers.Dense(3 * width, dtype=self.dtype_policy)
        self.qkv_dense.build(input_shape)
        self.output_dense = keras.layers.Dense(width, dtype=self.dtype_policy)
        self.output_dense.build(input_shape)

    def call(self, inputs: Tensor) -> Tensor:
        _, tokens, width = inputs.shape
        shape = (-1, tokens, 3, self.num_heads, width // self.num_heads)
        mixed = linear_attention(*ops.unstack(ops.reshape(self.qkv_dense(inputs), shape), axis=2))
        return self.output_dense(ops.reshape(mixed, (-1, tokens, width)))


class FourierMixer(keras.layers.Layer):
    """`fourier_transform` as a layer, which has no weights."""

    def call(self, inputs: Tensor) -> Tensor:
        return fourier_transform(inputs)


class SelfAttention(keras.layers.MultiHeadAttention):
    """Keras' attention of a sequence to itself, as a layer of one input."""

    def build(self, input_shape: tuple[int, ...]) -> None:
        super().build(input_shape, input_shape)

    def call(self, inputs: Tensor) -> Tensor:
        return super().call(inputs, inputs)
