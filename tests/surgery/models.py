"""Models with attention for the tests of surgery, and CSP in NumPy as a reference."""

import keras
import numpy as np
import pytest
from keras import layers, ops

from keras_permix.layers import SimpleAttention
from tests.harness import to_numpy
from tests.oracle import permutations as oracle

TOKENS = np.random.default_rng(0).normal(size=(2, 8, 6)).astype("float32")
ignore_class_warning = pytest.mark.filterwarnings("ignore:Classes that create attention")


@keras.saving.register_keras_serializable("tests")
class Encoder(layers.Layer):
    """A Transformer layer as in tutorials, with a second attention layer in a list."""

    def __init__(self, heads, width, **kwargs):
        super().__init__(**kwargs)
        self.heads, self.width = heads, width
        self.attention = layers.MultiHeadAttention(heads, width)
        self.more = [layers.LayerNormalization(), layers.MultiHeadAttention(heads, width)]
        self.dense = layers.Dense(6)

    def build(self, input_shape):
        self.attention.build(input_shape, input_shape)
        self.more[0].build(input_shape)
        self.more[1].build(input_shape, input_shape)
        self.dense.build(input_shape)

    def call(self, x):
        x = x + self.attention(x, x)
        x = self.more[0](x)
        return self.dense(x + self.more[1](query=x, value=x, key=x))

    def get_config(self):
        return {**super().get_config(), "heads": self.heads, "width": self.width}


@keras.saving.register_keras_serializable("tests")
class CustomModel(keras.Model):
    """A subclassed model with an `Encoder`."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.encoder = Encoder(2, 3)
        self.head = layers.Dense(4)

    def build(self, input_shape):
        self.encoder.build(input_shape)
        self.head.build(input_shape)

    def call(self, x):
        return self.head(ops.mean(self.encoder(x), axis=1))

    def get_config(self):
        return {"name": self.name}


def functional(**arguments):
    tokens = keras.Input((8, 6))
    x = layers.Dense(6, "tanh")(tokens)
    x = x + layers.MultiHeadAttention(2, **{"key_dim": 3, **arguments})(x, x)
    return keras.Model(tokens, layers.Dense(3)(x))


def randomize(model):
    rng = np.random.default_rng(1)
    for weight in model.weights:
        weight.assign(rng.normal(0, 0.3, weight.shape).astype("float32"))
    return model


def mixed(x, attention, groups=2):
    """Apply CSP in NumPy, with the projections of a Keras attention layer."""
    kernels = dict(
        zip(
            [weight.path.split("/")[-2:][0] + "/" + weight.name for weight in attention.weights],
            map(to_numpy, attention.weights),
            strict=True,
        )
    )
    kernel, bias = kernels["value/kernel"], kernels.get("value/bias")
    values = np.einsum("bnc,chd->bnhd", x, kernel) + (0 if bias is None else bias)
    values = values.reshape(*x.shape[:2], -1)
    steps = oracle.schedule("linear", values.shape[-1])
    values = oracle.values(values, oracle.csp(values, steps, groups))
    kernel = kernels["attention_output/kernel"]
    outputs = values @ kernel.reshape(-1, kernel.shape[-1])
    return outputs + kernels.get("attention_output/bias", 0)


class Plain(layers.Layer):
    """A custom layer without `**kwargs` in its constructor."""

    def __init__(self, heads, width=3):
        super().__init__()
        self.heads, self.width = heads, width
        self.attention = layers.MultiHeadAttention(heads, width)

    def call(self, x):
        return x + self.attention(x, x)


class PlainWithConfig(Plain):
    def get_config(self):
        return {**super().get_config(), "heads": self.heads, "width": self.width}


class PlainModel(keras.Model):
    """A subclassed model of Keras layers, without a `get_config`."""

    def __init__(self):
        super().__init__()
        self.attention, self.head = layers.MultiHeadAttention(2, 3), layers.Dense(4)

    def call(self, x):
        return self.head(x + self.attention(x, x))


def causal_attention(kind=SimpleAttention):
    tokens = keras.Input((8, 6))
    return keras.Model(tokens, kind(2, causal=True)(tokens))
