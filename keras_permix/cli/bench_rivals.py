"""What the layers of this package are timed against."""

import keras
from keras import ops


class LinearAttention(keras.layers.Layer):
    """Attention without softmax, through `elu(x) + 1`: O(tokens), one fused projection.

    Source: Katharopoulos et al., "Transformers are RNNs", 2020, equations (5) and (7).
    """

    def __init__(self, num_heads, **kwargs):
        super().__init__(**kwargs)
        self.num_heads = num_heads

    def build(self, input_shape):
        width = input_shape[-1]
        self.qkv_dense = keras.layers.Dense(3 * width, dtype=self.dtype_policy)
        self.qkv_dense.build(input_shape)
        self.output_dense = keras.layers.Dense(width, dtype=self.dtype_policy)
        self.output_dense.build(input_shape)

    def call(self, inputs):
        _, tokens, width = inputs.shape
        shape = (-1, tokens, 3, self.num_heads, width // self.num_heads)
        query, key, value = ops.unstack(ops.reshape(self.qkv_dense(inputs), shape), axis=2)
        query, key = ops.elu(query) + 1, ops.elu(key) + 1
        memory = ops.einsum("bnhk,bnhv->bhkv", key, value)
        norm = ops.einsum("bnhk,bhk->bnh", query, ops.sum(key, axis=1))
        mixed = ops.einsum("bnhk,bhkv->bnhv", query, memory) / norm[..., None]
        return self.output_dense(ops.reshape(mixed, (-1, tokens, width)))


class FourierMixer(keras.layers.Layer):
    """The real part of a Fourier transform along tokens and channels: O(tokens log tokens).

    Source: Lee-Thorp et al., "FNet", 2021, equation (3).
    """

    def call(self, inputs):
        x = ops.cast(inputs, "float32")
        real, _ = ops.fft2((x, ops.zeros_like(x)))
        return ops.cast(real, inputs.dtype)


class SelfAttention(keras.layers.MultiHeadAttention):
    """Keras' attention of a sequence to itself, as a layer of one input."""

    def build(self, input_shape):
        super().build(input_shape, input_shape)

    def call(self, inputs):
        return super().call(inputs, inputs)
