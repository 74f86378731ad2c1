"""Mixers are swapped in people's own models and in the zoo's, with what fits of their weights."""

import warnings
from importlib.util import find_spec

import keras
import numpy as np
import pytest
from keras import layers, ops

from keras_permix import swap_mixer, zoo
from keras_permix.layers import CSP, SimpleAttention, SliceSort
from keras_permix.surgery.swap import find_mixers
from tests.harness import assert_close, to_numpy
from tests.oracle import permutations as oracle
from tests.zoo.models import tiny

TOKENS = np.random.default_rng(0).normal(size=(2, 8, 6)).astype("float32")
of_own_class = pytest.mark.filterwarnings("ignore:What makes its attention by itself")


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


def csp_of(model):
    return model.layers[2].value_dense, model.layers[2].output_dense


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
    biased = arguments.get("use_bias", True)
    assert [layer.bias is not None for layer in csp_of(swapped)] == [biased] * 2


@pytest.mark.once
def test_swapped_model_is_saved(tmp_path):
    swapped = swap_mixer(functional(), {"name": "slice_sort", "order": "interleave"})
    swapped.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(to_numpy(loaded(TOKENS)), to_numpy(swapped(TOKENS)))


@of_own_class
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


@of_own_class
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
    with pytest.raises(ValueError, match=r"`layers` must be indices of the 2 mixers.*=1\.0$"):
        swap_mixer(model, "csp", layers=1.0)


def test_what_is_no_model():
    with pytest.raises(TypeError, match="`model` must be a Keras model. Received: model='a'"):
        swap_mixer("a", "csp")


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


class Plain(layers.Layer):
    """A layer of one's own, whose constructor takes its own arguments and no others."""

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
    """A subclassed model of Keras' own layers, which nobody wrote a `get_config` for."""

    def __init__(self):
        super().__init__()
        self.attention, self.head = layers.MultiHeadAttention(2, 3), layers.Dense(4)

    def call(self, x):
        return self.head(x + self.attention(x, x))


@of_own_class
@pytest.mark.parametrize("make", [Plain, PlainWithConfig])
def test_constructors_need_not_take_more_than_their_own(make):
    model = randomize(keras.Sequential([keras.Input((8, 6)), make(2), layers.Dense(3)]))
    own, last = model.layers
    own.trainable = False
    swapped = swap_mixer(model, "csp")
    expected = TOKENS + mixed(TOKENS, own.attention)
    expected = expected @ to_numpy(last.kernel) + to_numpy(last.bias)
    assert_close(to_numpy(swapped(TOKENS)), expected)
    assert swapped.layers[0].name == own.name and not swapped.layers[0].trainable


@of_own_class
def test_subclassed_model_of_plain_layers():
    model = PlainModel()
    model(TOKENS)
    head = randomize(model).head
    expected = TOKENS + mixed(TOKENS, model.attention)
    expected = expected @ to_numpy(head.kernel) + to_numpy(head.bias)
    assert_close(to_numpy(swap_mixer(model, "csp")(TOKENS)), expected)


class Forgetful(Plain):
    def get_config(self):
        return super(Plain, self).get_config()


class Growing(PlainWithConfig):
    """A layer that has one more when it is made anew."""

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
        (Forgetful, r"Forgetful \(`get_config` without heads\)"),
        (Growing, r"Growing \(\d weights or layers in place of \d\)"),
        (WithArgument, r"WithArgument \(`get_config` without heads\)"),
    ],
)
def test_what_cannot_be_made_anew_is_named(make, lacks):
    model = make(2)
    if not isinstance(model, keras.Model):
        model = keras.Sequential([keras.Input((8, 6)), model])
    model(TOKENS)
    with pytest.raises(ValueError, match=f"can make it anew: .* Received: .* of the class {lacks}"):
        swap_mixer(model, "csp")


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
def test_single_frozen_weights_stay_so():
    model = functional()
    dense, attention = model.layers[1], model.layers[2]
    for weight in (dense.bias, attention._value_dense.kernel, attention._output_dense.bias):
        weight.trainable = False
    swapped = swap_mixer(model, "csp")
    frozen = [weight.path for weight in swapped.weights if not weight.trainable]
    name = attention.name
    assert frozen == [f"{dense.name}/bias", f"{name}/value/kernel", f"{name}/output/bias"]
    fused = swap_mixer(model, "simple_attention").layers[2]
    assert not fused.qkv_dense.kernel.trainable and fused.qkv_dense.bias.trainable
    vit = tiny("ViT")
    block = vit.get_layer("block_0")
    for weight in (block.mlp_in.kernel, block.mixer.qkv_dense.kernel):
        weight.trainable = False
    frozen = {w.path for w in swap_mixer(vit, "csp").weights if not w.trainable}
    frozen.discard("position_embedding/class_token")  # which nothing uses
    assert frozen == {"block_0/mlp_in/kernel", "block_0/mixer/value/kernel"}


def carried(model, swapped, but=()):
    """Whether all weights of a swapped model are this one's, by their paths, but those named."""
    old = {weight.path: to_numpy(weight) for weight in model.weights}
    for weight in swapped.weights:
        if not any(part in weight.path for part in but):
            np.testing.assert_array_equal(to_numpy(weight), old[weight.path], weight.path)
    inputs = model.make_inputs(0, 2)
    first = [to_numpy(one.features(inputs, layers=[0])[0]) for one in (model, swapped)]
    again = type(model).from_config(swapped.get_config())
    again.set_weights(swapped.get_weights())
    np.testing.assert_array_equal(to_numpy(again(inputs)), to_numpy(swapped(inputs)))
    return first


@pytest.mark.once
@pytest.mark.parametrize("attention", ["simple", "softmax"])
@pytest.mark.parametrize("variant", [None, "simple"])
def test_simpletron(attention, variant):
    model = tiny("SimpleTRON", attention=attention, variant=variant)
    swapped = swap_mixer(model, "csp", layers=-1)
    assert swapped.get_config()["mixer"][0] is None
    before, after = carried(model, swapped, but=["block_1/attention/value"])
    np.testing.assert_array_equal(after, before)
    (kernel, bias), mixer = (
        model.get_layer("block_1").mixer.qkv_dense.get_weights(),
        swapped.get_layer("block_1").mixer,
    )
    assert isinstance(mixer, CSP) and mixer.use_output_projection == (variant is None)
    np.testing.assert_array_equal(to_numpy(mixer.value_dense.kernel), kernel[:, 16:])
    np.testing.assert_array_equal(to_numpy(mixer.value_dense.bias), bias[16:])
    every = swap_mixer(swapped, {"name": "linformer", "num_heads": 2, "mixtures": 3})
    assert np.isfinite(to_numpy(every(model.make_inputs(0, 2)))).all()


@pytest.mark.once
def test_butterfly_vit():
    model = tiny("ButterflyViT")
    swapped = swap_mixer(model, {"name": "csp", "group_size": 4}, layers=[1])
    before, after = carried(model, swapped, but=["block_1/transformer/mixer/value"])
    np.testing.assert_array_equal(after, before)
    mixer = swapped.get_layer("block_1").block.mixer
    kernel = to_numpy(model.get_layer("block_1").block.mixer.qkv_dense.kernel)
    np.testing.assert_array_equal(to_numpy(mixer.value_dense.kernel), kernel[:, 16:])
    with pytest.raises(ValueError, match="`group_size` must divide"):
        swap_mixer(model, {"name": "csp", "group_size": 3})


@pytest.mark.once
def test_mega_keeps_its_gates():
    model = tiny("MEGA")
    swapped = swap_mixer(model, {"name": "csp", "group_size": 3}, layers=[1])
    before, after = carried(model, swapped, but=["block_1/gate"])
    np.testing.assert_array_equal(after, before)
    gates = [m.get_layer("block_1").gate_dense.get_weights() for m in (model, swapped)]
    for old, new in zip(*gates, strict=True):
        kept = [*range(8), *range(12, 30)]  # the width, 4 shared channels, hidden_dim and width
        np.testing.assert_array_equal(new, old[..., kept])
    whole = swap_mixer(swapped, "slice_sort")
    assert whole.get_config()["mixer"] == {"name": "slice_sort"}
    assert whole.get_config()["chunk_size"] is None
    back = swap_mixer(whole, "softmax", layers=[0])
    gates = [m.get_layer("block_0").gate_dense.get_weights()[0] for m in (model, back)]
    np.testing.assert_array_equal(*(kernel[:, kept] for kernel in gates))


@pytest.mark.once
def test_graphormer():
    model = tiny("Graphormer")
    swapped = swap_mixer(model, "slice_sort", layers=[1])
    before, after = carried(model, swapped)
    np.testing.assert_array_equal(after, before)
    paths = {weight.path for weight in swapped.weights if "block_1/mixer/" in weight.path}
    assert {path.split("/")[2] for path in paths} == {"value", "output"}


@pytest.mark.once
def test_weights_of_an_own_class_are_loaded_as_the_docstring_says(tmp_path):
    def make():
        return keras.Sequential([keras.Input((8, 6)), Encoder(2, 3)])

    with pytest.warns(UserWarning, match=r"^What .* by itself \(Encoder\) would .*save_weights"):
        swapped = swap_mixer(randomize(make()), "csp")
    swapped.save_weights(tmp_path / "model.weights.h5")
    with pytest.warns(UserWarning, match="swap again before `load_weights`"):
        again = swap_mixer(make(), "csp")
    again.load_weights(tmp_path / "model.weights.h5")
    np.testing.assert_array_equal(to_numpy(again(TOKENS)), to_numpy(swapped(TOKENS)))


@of_own_class
@pytest.mark.once
@pytest.mark.skipif(not find_spec("keras_hub"), reason="KerasHub is absent")
def test_vit_of_keras_hub():
    from keras_hub.models import ViTBackbone

    model = ViTBackbone(
        image_shape=(8, 8, 3), patch_size=2, num_layers=2, num_heads=2, hidden_dim=6, mlp_dim=8
    )
    images = np.random.default_rng(0).normal(size=(2, 8, 8, 3)).astype("float32")
    swapped = swap_mixer(randomize(model), {"name": "csp", "ragged": True})  # of 17 tokens
    assert [type(layer) for layer in find_mixers(swapped)] == [CSP, CSP]
    first = find_mixers(model)[0]
    tokens = np.random.default_rng(1).normal(size=(2, 8, 6)).astype("float32")
    assert_close(to_numpy(find_mixers(swapped)[0](tokens)), mixed(tokens, first))
    assert swapped(images).shape == model(images).shape
    one = swap_mixer(model, "slice_sort", layers=[1])
    assert isinstance(find_mixers(one)[0], layers.MultiHeadAttention)


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


def test_a_causal_mixer_is_swapped_for_a_causal_one():
    swapped = swap_mixer(only_the_past(), {"name": "causal_csp", "delays": 3})
    x = np.random.default_rng(0).normal(size=(2, 8, 6)).astype("float32")
    whole = to_numpy(swapped(x))
    later = np.concatenate([x[:, :5], x[:, 5:] + 1], axis=1)
    np.testing.assert_array_equal(to_numpy(swapped(later))[:, :5], whole[:, :5])


def test_groups_fit_any_length_where_the_model_takes_any():
    tokens = keras.Input((None, 6))
    model = keras.Model(tokens, keras.layers.MultiHeadAttention(2, 3)(tokens, tokens))
    swapped = swap_mixer(model, "csp")
    assert to_numpy(swapped(np.zeros((2, 7, 6), "float32"))).shape == (2, 7, 6)


def quantized():
    model = tiny("ViT", width=32)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of layers that stay as they are
        model.quantize("int8")
    return model


def attending(**arguments):
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
        (with_lora, ValueError, "`model` must not be quantized, nor have LoRA"),
        (lambda: tiny("Graphormer"), ValueError, "`mixer` must be one of .*attention.*slice_sort"),
        (lambda: tiny("MEGA", causal=True), ValueError, "`causal` and `chunk_size` need"),
        (cross, TypeError, "`value` must be the first argument itself"),
        (causal, TypeError, "`use_causal_mask` must be False"),
        (only_the_past, TypeError, "A causal mixer is swapped for one that is causal"),
        (quantized, ValueError, "`model` must not be quantized"),
        (unbuilt, ValueError, "`model` must be built"),
        (lambda: attending(use_gate=True), ValueError, "`use_gate` cannot be swapped"),
        (lambda: attending(sliding_window=4), ValueError, "`sliding_window` cannot be swapped"),
        (lambda: attending(output_shape=6), ValueError, "`output_shape` cannot be swapped"),
        (lambda: tiny("MLPMixer"), ValueError, "MLPMixer has no argument `mixer`.* by MLPs"),
        (lambda: tiny("PatchOnlyMLPMixer"), ValueError, "PatchOnlyMLPMixer has no argument"),
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


def test_what_is_made_anew_within_has_the_dtype_of_its_making():
    """A constructor that takes no dtype makes its parts under the policy of that time."""
    before = keras.config.dtype_policy()
    keras.config.set_dtype_policy("mixed_bfloat16")
    try:
        inputs = keras.Input((6, 4))
        x = PlainWithConfig(2, 4)(inputs)
        model = keras.Model(inputs, layers.MultiHeadAttention(2, 2)(x, x))
    finally:
        keras.config.set_dtype_policy(before)
    swapped = swap_mixer(model, "csp", layers=-1)
    assert keras.config.dtype_policy() == before
    (copy,) = (layer for layer in swapped.layers if isinstance(layer, Plain))
    assert copy.attention.compute_dtype == "bfloat16"
