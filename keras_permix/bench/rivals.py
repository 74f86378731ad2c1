"""Define the baselines that ops and layers are timed against."""

from collections.abc import Callable
from math import gcd, sqrt

import keras
from keras import ops

from keras_permix._typing import Tensor

HEAD = 64  # channels


def in_heads(x: Tensor) -> Tensor:
    """Split the channels into heads of up to 64: `(batch, tokens, heads, channels)`."""
    batch, tokens, channels = x.shape
    return ops.reshape(x, (batch, tokens, -1, gcd(channels, HEAD)))


def on_heads(attend: Callable[[Tensor, Tensor, Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
    """Return a function that uses one tensor as query, key and value."""

    def call(x):
        heads = in_heads(x)
        return ops.reshape(attend(heads, heads, heads), x.shape)

    return call


def quadratic_attention(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """Compute `simple_attention` with a full attention map."""
    weights = ops.einsum("bnhd,bmhd->bhnm", query, key) / sqrt(key.shape[1])
    return ops.einsum("bhnm,bmhd->bnhd", weights, value)


class SelfAttention(keras.layers.MultiHeadAttention):
    """Apply Keras' `MultiHeadAttention` to one sequence."""

    def build(self, input_shape: tuple[int, ...]) -> None:
        super().build(input_shape, input_shape)

    def call(self, inputs: Tensor) -> Tensor:
        return super().call(inputs, inputs)
