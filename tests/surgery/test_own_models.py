"""Test `swap_mixer` on custom models: outputs and transferred weights."""

from importlib.util import find_spec

import keras
import numpy as np
import pytest
from keras import layers

from keras_permix import swap_mixer
from keras_permix.layers import (
    CSP,
    ButterflyBlock,
    MegaBlock,
    MixerBlock,
    SliceSort,
    SoftmaxAttention,
)
from keras_permix.surgery.swap import find_mixers
from tests.harness import assert_close, to_numpy
from tests.surgery.models import (
    TOKENS,
    CustomModel,
    Encoder,
    Plain,
    PlainModel,
    PlainWithConfig,
    causal_attention,
    functional,
    ignore_class_warning,
    mixed,
    randomize,
)
from tests.zoo.models import tiny


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
def test_swapped_model_can_be_saved(tmp_path):
    swapped = swap_mixer(functional(), {"name": "slice_sort", "order": "interleave"})
    swapped.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(to_numpy(loaded(TOKENS)), to_numpy(swapped(TOKENS)))


@ignore_class_warning
@pytest.mark.parametrize("kind", ["layer", "subclass"])
def test_attention_in_custom_layers(kind):
    if kind == "layer":
        model = randomize(keras.Sequential([keras.Input((8, 6)), Encoder(2, 3)]))
        encoder, head = model.layers[0], None
    else:
        model = CustomModel()
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
    assert len(old) == len(model.trainable_weights) - 2 * 4  # without queries and keys


class Twice(layers.Layer):
    """A custom layer that calls an attention, which other layers may share."""

    def __init__(self, attention=None, **kwargs):
        super().__init__(**kwargs)
        self.attention = attention or layers.MultiHeadAttention(2, 3)

    def build(self, input_shape):
        if not self.attention.built:
            self.attention.build(input_shape, input_shape)

    def call(self, x):
        return x + self.attention(x, x)

    def get_config(self):
        return super().get_config()


@ignore_class_warning
def test_shared_layers_stay_shared():
    tokens = keras.Input((8, 6))
    dense, attention = layers.Dense(6), layers.MultiHeadAttention(2, 3)
    inner = keras.Model(tokens, dense(attention(tokens, tokens)))
    x = Twice(attention)(Twice(attention)(dense(inner(tokens))))
    model = randomize(keras.Model(tokens, x))
    swapped = swap_mixer(model, {"name": "attention", "num_heads": 2})
    assert_close(to_numpy(swapped(TOKENS)), to_numpy(model(TOKENS)))
    assert swapped.count_params() == model.count_params()


class Scaled(layers.Layer):
    """A custom layer without a config, which `clone_model` cannot copy."""

    def __init__(self, scale):
        super().__init__()
        self.scale = scale

    def call(self, x):
        return self.scale * x

    def get_config(self):
        raise NotImplementedError


class Described(keras.Model):
    """A functional subclass that makes its layers."""

    def __init__(self, width=6, encoder=True, **kwargs):
        tokens = keras.Input((8, 6))
        encode = Encoder(2, 3) if encoder else layers.MultiHeadAttention(2, 3)
        x = layers.Dense(width)(tokens)
        super().__init__(tokens, Scaled(2.0)(encode(x) if encoder else encode(x, x)), **kwargs)
        self.width, self.encoder = width, encoder

    def get_config(self):
        return {"width": self.width, "encoder": self.encoder}


@ignore_class_warning
def test_model_that_only_its_class_can_copy():
    model = randomize(Described())
    swapped = swap_mixer(model, {"name": "attention", "num_heads": 2})
    assert_close(to_numpy(swapped(TOKENS)), to_numpy(model(TOKENS)))
    with pytest.raises(ValueError, match="Received: .*Described .*in a graph that the class makes"):
        swap_mixer(Described(encoder=False), "csp")


@ignore_class_warning
def test_layers_argument():
    model = randomize(keras.Sequential([keras.Input((8, 6)), Encoder(2, 3)]))
    first = swap_mixer(model, "slice_sort", layers=[0]).layers[0]
    assert isinstance(first.attention, SliceSort)
    assert isinstance(first.more[1], layers.MultiHeadAttention)
    last = swap_mixer(model, "csp", layers=[model.layers[0].more[1].name]).layers[0]
    assert isinstance(last.attention, layers.MultiHeadAttention)
    assert isinstance(last.more[1], CSP)
    with pytest.raises(ValueError, match=r"`layers` must be indices or names.*=\[2\]"):
        swap_mixer(model, "csp", layers=[2])
    for wrong in (1.0, True, [False]):
        with pytest.raises(ValueError, match=r"`layers` must be indices or names.*Received"):
            swap_mixer(model, "csp", layers=wrong)


@ignore_class_warning
@pytest.mark.parametrize("make", [Plain, PlainWithConfig])
def test_layer_without_kwargs_in_constructor(make):
    model = randomize(keras.Sequential([keras.Input((8, 6)), make(2), layers.Dense(3)]))
    custom, last = model.layers
    custom.trainable = False
    swapped = swap_mixer(model, "csp")
    expected = TOKENS + mixed(TOKENS, custom.attention)
    expected = expected @ to_numpy(last.kernel) + to_numpy(last.bias)
    assert_close(to_numpy(swapped(TOKENS)), expected)
    assert swapped.layers[0].name == custom.name and not swapped.layers[0].trainable


@ignore_class_warning
def test_subclassed_model_of_keras_layers():
    model = PlainModel()
    model(TOKENS)
    head = randomize(model).head
    expected = TOKENS + mixed(TOKENS, model.attention)
    expected = expected @ to_numpy(head.kernel) + to_numpy(head.bias)
    assert_close(to_numpy(swap_mixer(model, "csp")(TOKENS)), expected)


def test_csp_to_csp_keeps_projections():
    tokens = keras.Input((8, 6))
    model = keras.Model(tokens, layers.Dense(3)(CSP(use_value_bias=True)(tokens)))
    swapped = swap_mixer(randomize(model), {"name": "csp", "group_size": 4})
    assert swapped.layers[1].group_size == 4
    kernel = to_numpy(model.layers[1].value_dense.kernel)
    np.testing.assert_array_equal(to_numpy(swapped.layers[1].value_dense.kernel), kernel)


@pytest.mark.once
@pytest.mark.parametrize("arguments", [{}, dict(use_bias=False)])
@pytest.mark.parametrize("mixer", ["attention", {"name": "simple_attention", "num_heads": 4}])
def test_csp_to_attention_keeps_projections(mixer, arguments):
    model = swap_mixer(randomize(functional(key_dim=8, **arguments)), "csp")
    value, output = (dense.get_weights() for dense in csp_of(model))
    attention = swap_mixer(model, mixer).layers[2]
    assert attention.num_heads == (8 if mixer == "attention" else 4)
    for ours, theirs in zip(attention.qkv_dense.get_weights(), value, strict=True):
        np.testing.assert_array_equal(ours[..., 32:], theirs)
    for ours, theirs in zip(attention.output_dense.get_weights(), output, strict=True):
        np.testing.assert_array_equal(ours, theirs)


@pytest.mark.once
def test_frozen_layers_and_dropout_are_kept():
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
def test_layers_shared_by_models_stay_frozen():
    shared = layers.Dense(6, trainable=False)
    attention = layers.MultiHeadAttention(2, 3, trainable=False)
    inputs = keras.Input((8, 6))
    first, second = (keras.Model(inputs, attention(x, x)) for x in (shared(inputs), shared(inputs)))
    last = layers.Dense(3)
    swapped = swap_mixer(keras.Model(inputs, last(second(first(inputs)))), "csp")
    assert len(swapped.trainable_weights) == 2


@pytest.mark.once
def test_model_in_a_wrapper():
    inner = randomize(functional())
    inputs = keras.Input((4, *TOKENS.shape[1:]))
    model = keras.Model(inputs, layers.TimeDistributed(inner)(inputs))
    swapped = swap_mixer(model, "csp")
    x = np.stack([TOKENS] * 4, axis=1)
    expected = to_numpy(swap_mixer(inner, "csp")(TOKENS))
    for step in range(4):
        assert_close(to_numpy(swapped(x))[:, step], expected)


@pytest.mark.once
def test_vocabularies_are_kept():
    lookup = layers.IntegerLookup()
    lookup.adapt(np.array([3, 5, 5, 7]))
    inputs = keras.Input((4,), dtype="int64")
    x = layers.Embedding(8, 6)(lookup(inputs))
    model = keras.Model(inputs, layers.MultiHeadAttention(2, 3)(x, x))
    swapped = swap_mixer(model, {"name": "attention", "num_heads": 2})
    ids = np.array([[5, 3, 7, 9]])
    (copy,) = (layer for layer in swapped.layers if isinstance(layer, layers.IntegerLookup))
    np.testing.assert_array_equal(to_numpy(copy(ids)), to_numpy(lookup(ids)))
    assert_close(to_numpy(swapped(ids)), to_numpy(model(ids)))


@pytest.mark.once
def test_frozen_weights_are_kept():
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
    frozen.discard("position_embedding/class_token")  # unused
    assert frozen == {"block_0/mlp_in/kernel", "block_0/mixer/value/kernel"}


@pytest.mark.once
def test_load_weights_after_swap_in_custom_class(tmp_path):
    def make():
        return keras.Sequential([keras.Input((8, 6)), Encoder(2, 3)])

    with pytest.warns(
        UserWarning, match=r"^Classes that create attention \(Encoder\) .*save_weights"
    ):
        swapped = swap_mixer(randomize(make()), "csp")
    swapped.save_weights(tmp_path / "model.weights.h5")
    with pytest.warns(UserWarning, match="swap the same mixers before `load_weights`"):
        again = swap_mixer(make(), "csp")
    again.load_weights(tmp_path / "model.weights.h5")
    np.testing.assert_array_equal(to_numpy(again(TOKENS)), to_numpy(swapped(TOKENS)))


@ignore_class_warning
@pytest.mark.once
@pytest.mark.skipif(not find_spec("keras_hub"), reason="KerasHub is not installed")
def test_vit_of_keras_hub():
    from keras_hub.models import ViTBackbone

    model = ViTBackbone(
        image_shape=(8, 8, 3), patch_size=2, num_layers=2, num_heads=2, hidden_dim=6, mlp_dim=8
    )
    images = np.random.default_rng(0).normal(size=(2, 8, 8, 3)).astype("float32")
    swapped = swap_mixer(randomize(model), {"name": "csp", "ragged": True})  # 17 tokens
    assert [type(layer) for layer in find_mixers(swapped)] == [CSP, CSP]
    first = find_mixers(model)[0]
    tokens = np.random.default_rng(1).normal(size=(2, 8, 6)).astype("float32")
    assert_close(to_numpy(find_mixers(swapped)[0](tokens)), mixed(tokens, first))
    assert swapped(images).shape == model(images).shape
    one = swap_mixer(model, "slice_sort", layers=[1])
    assert isinstance(find_mixers(one)[0], layers.MultiHeadAttention)
    pixels = keras.Input((8, 8, 3))
    head = layers.Dense(2)(layers.GlobalAveragePooling1D()(model(layers.Rescaling(2.0)(pixels))))
    whole = swap_mixer(keras.Model(pixels, head), {"name": "csp", "ragged": True})
    assert [type(layer) for layer in find_mixers(whole)] == [CSP, CSP]
    np.testing.assert_array_equal(
        to_numpy(whole.get_layer(model.name)(images)), to_numpy(swapped(images))
    )


@pytest.mark.once
def test_attention_on_feature_maps():
    maps = keras.Input((4, 4, 6))
    model = keras.Model(maps, layers.MultiHeadAttention(2, 3)(maps, maps))
    assert swap_mixer(model, "damped_ema").output_shape == (None, 4, 4, 6)
    model = keras.Model(maps, layers.MultiHeadAttention(2, 3, attention_axes=1)(maps, maps))
    with pytest.raises(ValueError, match="must have the defaults.*{'attention_axes'"):
        swap_mixer(model, "csp")


def test_causal_attention_to_causal_csp():
    swapped = swap_mixer(causal_attention(), {"name": "causal_csp", "delays": 3})
    x = np.random.default_rng(0).normal(size=(2, 8, 6)).astype("float32")
    whole = to_numpy(swapped(x))
    later = np.concatenate([x[:, :5], x[:, 5:] + 1], axis=1)
    np.testing.assert_array_equal(to_numpy(swapped(later))[:, :5], whole[:, :5])


def test_swapped_model_supports_variable_length():
    tokens = keras.Input((None, 6))
    model = keras.Model(tokens, keras.layers.MultiHeadAttention(2, 3)(tokens, tokens))
    swapped = swap_mixer(model, "csp")
    assert to_numpy(swapped(np.zeros((2, 7, 6), "float32"))).shape == (2, 7, 6)


@pytest.mark.once
def test_copy_with_other_dtype_raises():
    """A constructor without `dtype` copies with the current dtype policy."""
    before = keras.config.dtype_policy()
    keras.config.set_dtype_policy("mixed_bfloat16")
    try:
        inputs = keras.Input((6, 4))
        x = PlainWithConfig(2, 4)(inputs)
        model = keras.Model(inputs, layers.MultiHeadAttention(2, 2)(x, x))
    finally:
        keras.config.set_dtype_policy(before)
    with pytest.raises(ValueError, match="Received: .*PlainWithConfig .a copy of dtype float32"):
        swap_mixer(model, "csp", layers=-1)


def test_mixer_within_a_butterfly_block():
    tokens = keras.Input((8, 6))
    block = MixerBlock(SoftmaxAttention(2), 16)
    model = randomize(keras.Model(tokens, ButterflyBlock(block, 4)(tokens)))
    swapped = swap_mixer(model, "csp").layers[1].block
    assert isinstance(swapped.mixer, CSP)
    for name in ("mixer_norm", "mlp_norm", "mlp_in", "mlp_out"):
        for ours, theirs in zip(
            getattr(swapped, name).weights, getattr(block, name).weights, strict=True
        ):
            np.testing.assert_array_equal(to_numpy(ours), to_numpy(theirs))


@pytest.mark.once
def test_moving_average_of_a_mega_block_is_kept():
    tokens = keras.Input((8, 6))
    x = SoftmaxAttention(2)(MegaBlock(shared_dim=4)(tokens))
    swapped = swap_mixer(keras.Model(tokens, x), "csp")
    assert type(swapped.layers[1].ema).__name__ == "DampedEMA"
    assert isinstance(swapped.layers[2], CSP)


@pytest.mark.once
def test_compiled_model_is_not_compiled_after_a_swap():
    model = functional()
    model.compile("adam", "mse")
    assert not swap_mixer(model, "csp").compiled
    assert model.compiled and model.optimizer is not None
