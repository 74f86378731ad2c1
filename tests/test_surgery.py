"""Mixers are swapped in people's own models and in the zoo's, with what fits of their weights."""

import warnings

import keras
import numpy as np
import pytest
from keras import layers, ops

from keras_permix import swap_mixer, zoo
from keras_permix.layers import CSP, SimpleAttention, SliceSort
from tests.harness import assert_close, to_numpy
from tests.oracle import permutations as oracle
from tests.zoo.models import tiny

TOKENS = np.random.default_rng(0).normal(size=(2, 8, 6)).astype("float32")


@keras.saving.register_keras_serializable("tests")
class Encoder(layers.Layer):
    """A Transformer layer as tutorials have it, whose attention lies in a list."""

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
class Own(keras.Model):
    """A subclassed model around that layer."""

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
    """What CSP with the projections of Keras' attention makes of tokens: NumPy's own."""
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


@pytest.mark.parametrize("arguments", [{}, dict(use_bias=False), dict(key_dim=5)])
def test_functional_model(arguments):
    model = randomize(functional(**arguments))
    before = to_numpy(model(TOKENS))
    swapped = swap_mixer(model, "csp")
    first, attention, last = (model.layers[index] for index in (1, 2, -1))
    x = np.tanh(TOKENS @ to_numpy(first.kernel) + to_numpy(first.bias))
    expected = (x + mixed(x, attention)) @ to_numpy(last.kernel) + to_numpy(last.bias)
    assert_close(to_numpy(swapped(TOKENS)), expected)
    np.testing.assert_array_equal(to_numpy(model(TOKENS)), before)
    assert swapped.layers[1] is not model.layers[1]


@pytest.mark.once
def test_swapped_model_is_saved(tmp_path):
    swapped = swap_mixer(functional(), {"name": "slice_sort", "order": "interleave"})
    swapped.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(to_numpy(loaded(TOKENS)), to_numpy(swapped(TOKENS)))


@pytest.mark.parametrize("kind", ["layer", "subclass"])
def test_attention_within_layers(kind):
    if kind == "layer":
        model = randomize(keras.Sequential([keras.Input((8, 6)), Encoder(2, 3)]))
        encoder, head = model.layers[0], None
    else:
        model = Own()
        model(TOKENS)
        encoder, head = randomize(model).encoder, model.head
    swapped = swap_mixer(model, "csp")
    x = TOKENS + mixed(TOKENS, encoder.attention)
    mean, variance = x.mean(-1, keepdims=True), x.var(-1, keepdims=True)
    gamma, beta = map(to_numpy, encoder.more[0].weights)
    x = (x - mean) / np.sqrt(variance + encoder.more[0].epsilon) * gamma + beta
    x = x + mixed(x, encoder.more[1])
    x = x @ to_numpy(encoder.dense.kernel) + to_numpy(encoder.dense.bias)
    if head is not None:
        x = x.mean(1) @ to_numpy(head.kernel) + to_numpy(head.bias)
    assert_close(to_numpy(swapped(TOKENS)), x)
    swapped.compile("sgd", "mse")
    old = [to_numpy(weight) for weight in swapped.trainable_weights]
    swapped.fit(TOKENS, np.zeros(x.shape, "float32"), verbose=0)
    for weight, before in zip(swapped.trainable_weights, old, strict=True):
        assert not np.array_equal(to_numpy(weight), before), weight.path
    assert len(old) == len(model.trainable_weights) - 2 * 4  # queries and keys are gone


def test_some_layers_only():
    model = randomize(keras.Sequential([keras.Input((8, 6)), Encoder(2, 3)]))
    first = swap_mixer(model, "slice_sort", layers=[0]).layers[0]
    assert isinstance(first.attention, SliceSort)
    assert isinstance(first.more[1], layers.MultiHeadAttention)
    last = swap_mixer(model, "csp", layers=[model.layers[0].more[1].name]).layers[0]
    assert isinstance(last.attention, layers.MultiHeadAttention)
    assert isinstance(last.more[1], CSP)
    with pytest.raises(ValueError, match=r"`layers` must be indices of the 2 mixers.*=\[2\]"):
        swap_mixer(model, "csp", layers=[2])


def test_model_of_the_zoo():
    model = tiny("ViT")
    swapped = swap_mixer(model, {"name": "csp", "shift": "unit"}, layers=[-1])
    names = [mixer["name"] for mixer in swapped.get_config()["mixer"]]
    assert names == ["attention", "csp"]
    images = model.make_inputs(0, 2)
    for ours, theirs in zip(swapped.features(images)[:1], model.features(images)[:1], strict=True):
        assert_close(to_numpy(ours), to_numpy(theirs))
    kernel = to_numpy(model.get_layer("block_1").mixer.qkv_dense.kernel)
    mixer = swapped.get_layer("block_1").mixer
    np.testing.assert_array_equal(to_numpy(mixer.value_dense.kernel), kernel[:, 16:])
    again = swap_mixer(swapped, "slice_sort")
    assert again.get_config()["mixer"]["name"] == "slice_sort"
    again = zoo.ViT.from_config(swapped.get_config())
    again.set_weights(swapped.get_weights())
    np.testing.assert_array_equal(to_numpy(again(images)), to_numpy(swapped(images)))


def test_softmax_becomes_simple_attention_with_all_its_projections():
    model = tiny("ViT")
    swapped = swap_mixer(model, "simple_attention")
    for index in range(2):
        ours, theirs = (m.get_layer(f"block_{index}").mixer for m in (swapped, model))
        assert_close(to_numpy(ours.qkv_dense.kernel), to_numpy(theirs.qkv_dense.kernel))
        assert_close(to_numpy(ours.output_dense.kernel), to_numpy(theirs.output_dense.kernel))


def cross():
    tokens, other = keras.Input((8, 6)), keras.Input((8, 6))
    return keras.Model([tokens, other], layers.MultiHeadAttention(2, 3)(tokens, other))


def causal():
    tokens = keras.Input((8, 6))
    attention = layers.MultiHeadAttention(2, 3)
    return keras.Model(tokens, attention(tokens, tokens, use_causal_mask=True))


def unbuilt():
    return Own()


def without():
    return keras.Sequential([keras.Input((8, 6)), layers.Dense(3)])


def test_mixers_are_swapped_for_others_of_their_class():
    tokens = keras.Input((8, 6))
    model = keras.Model(tokens, layers.Dense(3)(CSP(use_value_bias=True)(tokens)))
    swapped = swap_mixer(randomize(model), {"name": "csp", "group_size": 4})
    assert swapped.layers[1].group_size == 4
    kernel = to_numpy(model.layers[1].value_dense.kernel)
    np.testing.assert_array_equal(to_numpy(swapped.layers[1].value_dense.kernel), kernel)


@pytest.mark.once
def test_other_heads_keep_all_projections():
    model = tiny("ViT")
    swapped = swap_mixer(model, {"name": "simple_attention", "num_heads": 4})
    ours, theirs = (m.get_layer("block_0").mixer.qkv_dense.kernel for m in (swapped, model))
    np.testing.assert_array_equal(to_numpy(ours), to_numpy(theirs))
    with pytest.raises(ValueError, match="`num_heads` must divide the 8 channels"):
        swap_mixer(model, {"name": "simple_attention", "num_heads": 3})


@pytest.mark.once
def test_what_is_frozen_and_dropped_out_stays_so():
    model = functional(dropout=0.3)
    model.layers[1].trainable = False
    swapped = swap_mixer(model, "csp")
    assert not swapped.layers[1].trainable and swapped.layers[-1].trainable
    assert swapped.layers[2].dropout == 0.3
    vit = tiny("ViT")
    vit.get_layer("block_0").trainable = False
    swapped = swap_mixer(vit, "csp", layers="block_1")
    trained = {weight.path.split("/")[0] for weight in swapped.trainable_weights}
    assert "block_0" not in trained and "block_1" in trained


@pytest.mark.once
def test_attention_on_maps():
    maps = keras.Input((4, 4, 6))
    model = keras.Model(maps, layers.MultiHeadAttention(2, 3)(maps, maps))
    assert swap_mixer(model, "damped_ema").output_shape == (None, 4, 4, 6)
    model = keras.Model(maps, layers.MultiHeadAttention(2, 3, attention_axes=1)(maps, maps))
    with pytest.raises(ValueError, match="with `attention_axes` cannot be swapped"):
        swap_mixer(model, "csp")


def only_the_past():
    tokens = keras.Input((8, 6))
    return keras.Model(tokens, SimpleAttention(2, causal=True)(tokens))


def quantized():
    model = tiny("ViT", width=32)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of layers that stay as they are
        model.quantize("int8")
    return model


@pytest.mark.once
@pytest.mark.parametrize(
    ("make", "kind", "message"),
    [
        (cross, TypeError, "`value` must be the first argument itself"),
        (causal, TypeError, "`use_causal_mask` must be False"),
        (only_the_past, TypeError, "A causal mixer is swapped for one that is causal"),
        (quantized, ValueError, "`model` must not be quantized"),
        (unbuilt, ValueError, "`model` must be built"),
        (lambda: tiny("MEGA"), ValueError, "The blocks of MEGA are shaped by their mixer"),
        (lambda: tiny("MLPMixer"), ValueError, "MLPMixer has no argument `mixer`"),
        (without, ValueError, "`model` must hold Keras' `MultiHeadAttention`"),
    ],
)
def test_what_cannot_be_swapped(make, kind, message):
    with pytest.raises(kind, match=message):
        swap_mixer(make(), "csp")


@pytest.mark.once
def test_one_mixer_per_block_or_for_all():
    assert tiny("ViT", mixer=["csp", "csp"]).get_config()["mixer"] == {"name": "csp"}
    with pytest.raises(ValueError, match="`mixer` must be one for all blocks.*depth=2"):
        tiny("ViT", mixer=["csp"])
