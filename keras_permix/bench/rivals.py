"""What the operators and layers of this package are timed against."""

from collections.abc import Callable
from math import gcd, sqrt

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


class SelfAttention(keras.layers.MultiHeadAttention):
    """Keras' attention of a sequence to itself, as a layer of one input."""

    def build(self, input_shape: tuple[int, ...]) -> None:
        super().build(input_shape, input_shape)

    def call(self, inputs: Tensor) -> Tensor:
        return super().call(inputs, inputs)
