"""Test models that `swap_mixer` does not support."""

import warnings

import keras
import pytest
from keras import layers

from keras_permix import swap_mixer
from keras_permix.layers import LinearAttention
from tests.surgery.models import (
    TOKENS,
    CustomModel,
    Plain,
    PlainModel,
    PlainWithConfig,
    causal_attention,
    functional,
)
from tests.zoo.models import tiny


class Forgetful(Plain):
    def get_config(self):
        return super(Plain, self).get_config()


class Growing(PlainWithConfig):
    """A layer that gains a sublayer each time it is constructed."""

    made = 0

    def __init__(self, heads, width=3):
        super().__init__(heads, width)
        Growing.made += 1
        self.more = [layers.Dense(6) for _ in range(Growing.made)]

    def call(self, x):
        x = super().call(x)
        for layer in self.more:
            x = layer(x)
        return x


class WithArgument(PlainModel):
    def __init__(self, heads):
        super().__init__()


@pytest.mark.once
@pytest.mark.parametrize(
    ("make", "lacks"),
    [
        (Forgetful, r"Forgetful \(.*missing .*'heads'"),
        (Growing, r"Growing \(a copy with \d weights or layers, not \d\)"),
        (WithArgument, r"WithArgument \(.*override `get_config"),
    ],
)
def test_uncopyable_layer_raises(make, lacks):
    model = make(2)
    if not isinstance(model, keras.Model):
        model = keras.Sequential([keras.Input((8, 6)), model])
    model(TOKENS)
    with pytest.raises(
        ValueError, match=f"(?s)must support `get_config`.*Received: .* of the class {lacks}"
    ):
        swap_mixer(model, "csp")


def cross():
    tokens, other = keras.Input((8, 6)), keras.Input((8, 6))
    return keras.Model([tokens, other], layers.MultiHeadAttention(2, 3)(tokens, other))


def causal():
    tokens = keras.Input((8, 6))
    attention = layers.MultiHeadAttention(2, 3)
    return keras.Model(tokens, attention(tokens, tokens, use_causal_mask=True))


class CausalLayer(layers.Layer):
    """A layer with causal attention."""

    def build(self, shape):
        self.attention = layers.MultiHeadAttention(2, 3)
        self.attention.build(shape, shape)

    def call(self, x):
        return self.attention(x, x, use_causal_mask=True)


def causal_inside():
    tokens = keras.Input((8, 6))
    return keras.Model(tokens, CausalLayer()(tokens))


class Crossing(PlainModel):
    """A model that attends to the flipped tokens, which are another tensor."""

    def call(self, x):
        return self.head(self.attention(x, keras.ops.flip(x, axis=1)))


class Hidden(PlainModel):
    """A model with its attention in a dict."""

    def __init__(self):
        keras.Model.__init__(self)
        self.parts, self.head = {"mixer": layers.MultiHeadAttention(2, 3)}, layers.Dense(4)

    def call(self, x):
        return self.head(self.parts["mixer"](x, x))


def called(make):
    model = make()
    model(TOKENS)
    return model


def unbuilt():
    return CustomModel()


def without_attention():
    return keras.Sequential([keras.Input((8, 6)), layers.Dense(3)])


def quantized():
    model = tiny("ViT", hidden_dim=32)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about layers without quantization
        model.quantize("int8")
    return model


def attention_model(**arguments):
    tokens = keras.Input((16, 8))
    attention = keras.layers.MultiHeadAttention(2, 4, **arguments)
    return keras.Model(tokens, attention(tokens, tokens))


def with_lora():
    model = functional()
    model.layers[1].enable_lora(2)
    return model


@pytest.mark.once
@pytest.mark.parametrize(
    ("make", "kind", "message"),
    [
        (with_lora, ValueError, "`model` must not be quantized or have LoRA"),
        (lambda: tiny("Graphormer"), ValueError, "`mixer` must be one of .*attention.*slice_sort"),
        (lambda: tiny("MEGA", causal=True), ValueError, "`mixer` must be an attention function"),
        (lambda: called(Hidden), ValueError, "(?s)self.attention = .*in neither an attribute nor"),
        (cross, TypeError, "`value` must be the same object"),
        (causal, TypeError, "`use_causal_mask` must be False"),
        (causal_inside, TypeError, "`use_causal_mask` must be False"),
        (causal_attention, TypeError, "`mixer` must be causal"),
        (
            lambda: causal_attention(LinearAttention),
            TypeError,
            "`mixer` must be causal to replace linear",
        ),
        (quantized, ValueError, "`model` must not be quantized"),
        (unbuilt, ValueError, "`model` must be built"),
        (
            lambda: attention_model(use_gate=True),
            ValueError,
            "must have the defaults.*{'use_gate': True}",
        ),
        (lambda: attention_model(sliding_window=4), ValueError, "{'sliding_window': 4}"),
        (lambda: attention_model(output_shape=6), ValueError, "{'output_shape': .*6"),
        (lambda: tiny("MLPMixer"), ValueError, "`model` must have a `mixer`.*MLPMixer"),
        (lambda: tiny("PatchOnlyMLPMixer"), ValueError, "`mixer`. Received: PatchOnlyMLPMixer"),
        (without_attention, ValueError, "`model` must contain `MultiHeadAttention`"),
    ],
)
def test_unsupported_model_raises(make, kind, message):
    with pytest.raises(kind, match=message):
        swap_mixer(make(), "csp")


@pytest.mark.once
def test_cross_attention_in_subclassed_model_raises_at_call():
    with pytest.warns(UserWarning, match="Crossing"):
        swapped = swap_mixer(called(Crossing), "csp")
    with pytest.raises(TypeError, match="`value` must be the same object"):
        swapped(TOKENS)
