"""Test mixers created by name: defaults, overrides, padding and custom layers."""

import keras
import numpy as np
import pytest

from keras_permix import swap_mixer
from keras_permix.layers import (
    CSP,
    DampedEMA,
    GraphEmbedding,
    MegaBlock,
    PositionEmbedding,
    SliceSort,
    SoftmaxAttention,
)
from keras_permix.layers.mixers import MIXERS, check_mixer, check_mixers, make_mixer
from tests.backends import value_and_gradient
from tests.harness import assert_close, to_numpy
from tests.zoo.models import tiny

X = np.random.default_rng(0).normal(size=(2, 8, 16)).astype("float32")


@pytest.mark.parametrize("name", MIXERS)
def test_make_mixer_sets_defaults_and_depth(name):
    layer = make_mixer(name, layer_index=1, num_layers=3, dropout=0.25, name="mixer")
    assert type(layer) is MIXERS[name].layer
    assert tuple(layer(X).shape) == X.shape
    config = layer.get_config()
    wanted = {"name": "mixer", "dropout": 0.25, **MIXERS[name].defaults}
    assert wanted.items() <= config.items()
    if "layer_index" in config:
        assert (config["layer_index"], config["num_layers"]) == (1, 3)


def test_dict_overrides_arguments():
    spec = {"name": "circular_shift", "group_size": 4, "dropout": 0.5, "layer_index": 2}
    layer = make_mixer(spec, layer_index=1, num_layers=3, dropout=0.1, num_heads=5)
    assert (type(layer), layer.group_size, layer.dropout) == (CSP, 4, 0.5)
    assert (layer.layer_index, layer.num_layers) == (2, 3)
    assert spec["name"] == "circular_shift"
    assert make_mixer("attention", num_heads=2, inner_dim=6).head_dim == 3
    assert make_mixer({"name": "attention", "num_heads": 4}, num_heads=2).num_heads == 4
    copied = make_mixer(CSP(layer_index=1, num_layers=2), layer_index=3, num_layers=4)
    assert (copied.layer_index, copied.num_layers) == (3, 4)


class Scaled(keras.layers.Layer):
    """Scale tokens by a weight, which `__init__` creates if `early`."""

    def __init__(self, early=False, **kwargs):
        super().__init__(**kwargs)
        self.early = early
        if early:
            self._make_scale()

    def _make_scale(self):
        self.scale = self.add_weight(shape=(), initializer="ones", name="scale")

    def build(self, input_shape):
        if not self.early:
            self._make_scale()

    def call(self, inputs):
        return inputs * self.scale

    def get_config(self):
        return {**super().get_config(), "early": self.early}


@pytest.mark.once
@pytest.mark.parametrize("name", ["LRATransformer", "SimpleTRON", "ViT"])
def test_dropout_follows_custom_mixers(name):
    with keras.utils.custom_object_scope({"Scaled": Scaled}):
        model = tiny(name, mixer=Scaled(), dropout=0.25)
        block, named = model.get_layer("block_1"), tiny(name, mixer="csp", dropout=0.25)
    assert (type(block.mixer), block.mixer_dropout) == (Scaled, 0.25)
    block = named.get_layer("block_1")
    assert (block.mixer.dropout, block.mixer_dropout) == (0.25, 0.0)


@pytest.mark.once
def test_weights_with_equal_paths_raise():
    with keras.utils.custom_object_scope({"Scaled": Scaled}):
        assert tiny(mixer=Scaled()).reset_classifier(5).output_shape == (None, 5)
        model = tiny(mixer=Scaled(early=True))
        with pytest.raises(ValueError, match="different paths.*2 weights 'mixer/scale'"):
            model.reset_classifier(5)
        swapped = swap_mixer(model, "csp")
    assert type(swapped.get_layer("block_1").mixer) is CSP


@pytest.mark.parametrize("name", MIXERS)
@pytest.mark.parametrize("use_bias", [False, True])
def test_projection_width_and_bias(name, use_bias):
    layer = make_mixer(name, inner_dim=24, use_bias=use_bias)
    layer.build(X.shape)
    denses = [getattr(layer, f"{part}_dense", None) for part in ("value", "qkv", "output")]
    denses = [dense for dense in denses if dense is not None]
    assert len(denses) == (0 if name in ("damped_ema", "fourier") else 2)
    shapes = {tuple(dense.kernel.shape) for dense in denses}
    assert shapes <= {(16, 24), (16, 72), (24, 16)} and {dense.use_bias for dense in denses} <= {
        use_bias
    }


def test_dict_overrides_projection_arguments():
    spec = {"name": "attention", "num_heads": 2, "head_dim": 3, "use_qkv_bias": True}
    layer = make_mixer(spec, inner_dim=24, use_bias=False)
    assert (layer.head_dim, layer.use_qkv_bias, layer.use_output_bias) == (3, True, False)
    with pytest.raises(ValueError, match="`num_heads` must divide inner_dim=20.*num_heads=8"):
        make_mixer("attention", inner_dim=20)


def test_max_exchange_sets_order_of_slice_sort():
    layer, other = make_mixer("max_exchange"), SliceSort("max_exchange")
    assert layer.order == other.order == "max_exchange"


@pytest.mark.once
@pytest.mark.parametrize(
    ("given", "plain"),
    [
        (np.arange(4), [0, 1, 2, 3]),
        ([np.int64(2), np.arange(2)], [2, [0, 1]]),
        (np.int64(3), 3),
        ("unit", "unit"),
    ],
)
def test_numpy_arguments_become_plain_values(given, plain):
    found = check_mixer({"name": "csp", "shift": given})["shift"]
    assert found == plain and type(found) is type(plain)
    specs = check_mixers([{"name": "csp", "shift": given}] * 2, num_layers=2)
    assert specs == {"name": "csp", "shift": plain}


def test_class_of_a_layer_raises():
    with pytest.raises(TypeError, match="`mixer` must be a layer, not its class. Received: CSP"):
        check_mixers(CSP, num_layers=2)


@pytest.mark.parametrize("spec", ["convolution", None, {"num_heads": 2}, {"name": ["csp"]}])
def test_unknown_name_raises(spec):
    with pytest.raises(ValueError, match=r"(?s)`mixer` must be one of \('attention'.*Received: mi"):
        make_mixer(spec)


PADDED = np.array([[True] * 5 + [False] * 3, [True, False] * 4])
CONFIGURED = {
    **{name: {"name": name} for name in MIXERS},
    **{
        f"{name} {arguments}": {"name": name, **arguments}
        for name, each in {
            "attention": [{"fused": False}, {"dropout": 0.5}, {"use_output_projection": False}],
            "butterfly_attention": [{"block_size": 2}, {"block_size": 4, "fused": False}],
            "local_attention": [{"block_size": 2}, {"block_size": 3, "fused": False}],
            "simple_attention": [{"scale": "valid"}],
        }.items()
        for arguments in each
    },
}


@pytest.mark.parametrize("value", [np.nan, np.inf, 3e38])
@pytest.mark.parametrize("name", CONFIGURED)
def test_padding_values_are_ignored(name, value):
    """Outputs of real tokens and gradients do not depend on the values of padding."""
    layer = make_mixer(CONFIGURED[name])
    layer.build(X.shape)
    mask = keras.ops.convert_to_tensor(PADDED)

    def real(x):
        return keras.ops.where(mask[..., None], layer(x, mask=mask), 0.0)

    found = {}
    for filling in (0.0, value):
        x = np.where(PADDED[..., None], X, filling).astype("float32")
        found[filling] = [to_numpy(a) for a in value_and_gradient(real, x, np.ones_like(X))]
    for plain, other in zip(*found.values(), strict=True):
        assert_close(np.where(PADDED[..., None], other, 0), np.where(PADDED[..., None], plain, 0))


@pytest.mark.parametrize("name", [name for name in CONFIGURED if name != "fourier"])
def test_padding_values_do_not_reach_weights(name):
    layer = make_mixer(CONFIGURED[name])
    inputs = keras.Input(X.shape[1:]), keras.Input(X.shape[1:2], dtype="bool")
    outputs = keras.ops.where(inputs[1][..., None], layer(inputs[0], mask=inputs[1]), 0.0)
    model = keras.Model(inputs, outputs)
    model.compile(keras.optimizers.SGD(0.1), "mse")
    x = np.where(PADDED[..., None], X, np.nan).astype("float32")
    model.train_on_batch([x, PADDED], np.zeros_like(x))
    assert all(np.isfinite(weight).all() for weight in model.get_weights())


@keras.saving.register_keras_serializable("tests")
class Doubling(keras.layers.Layer):
    """A custom mixer from outside this package."""

    def call(self, x):
        return 2 * x


def test_layer_is_copied_from_config():
    given = CSP(group_size=4, use_value_bias=True, inner_dim=8)
    spec = check_mixer(given)
    assert spec["name"] == "csp" and check_mixer(spec) == spec
    layer = make_mixer(given, 1, 3, inner_dim=24, use_bias=False, name="mixer")
    config, expected = layer.get_config(), given.get_config()
    assert layer is not given and layer.name == "mixer"
    differing = {name for name in expected if config[name] != expected[name]}
    assert differing == {"layer_index", "num_layers", "name", "use_output_bias"}


def test_layer_in_a_model_matches_a_dict():
    for given in (CSP(group_size=4, use_value_bias=True), DampedEMA(8), SliceSort("max_exchange")):
        spec = check_mixer(given)
        assert set(spec) <= {"name", "group_size", "use_value_bias", "ema_dim", "bidirectional",
                             "order"}  # fmt: skip
        mixers = [
            tiny("ViT", mixer=mixer, dropout=0.25, dtype="bfloat16").get_layer("block_1").mixer
            for mixer in (given, spec)
        ]
        assert type(mixers[0]) is type(given) and mixers[0].get_config() == mixers[1].get_config()
        assert (mixers[0].dropout, mixers[0].compute_dtype) == (0.25, "bfloat16")


def test_frozen_layer_raises():
    with pytest.raises(ValueError, match="`mixer` must be a trainable layer.*Received: mixer=<CSP"):
        tiny("CSPViT", mixer=CSP(trainable=False))


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_custom_layer_is_copied(dtype):
    spec = check_mixer(Doubling())
    assert spec["name"] == "custom" and check_mixer(spec) == spec
    layer = make_mixer(spec, name="mixer", dtype=dtype, dropout=0.5)
    assert type(layer) is Doubling and (layer.name, layer.compute_dtype) == ("mixer", dtype)


@pytest.mark.parametrize(
    "mixer", [Doubling(), lambda index: (Doubling(), CSP(group_size=4))[index]]
)
def test_models_accept_layers_and_functions(mixer, tmp_path):
    model = tiny("ViT", mixer=mixer)
    first, second = (model.get_layer(f"block_{index}").mixer for index in range(2))
    assert first is not second and type(first) is Doubling
    assert type(second) is (Doubling if isinstance(mixer, Doubling) else CSP)
    images = model.make_inputs(seed=0, batch=2)
    expected = to_numpy(model(images))
    again = type(model).from_config(model.get_config())
    again.set_weights(model.get_weights())
    np.testing.assert_array_equal(to_numpy(again(images)), expected)
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(to_numpy(loaded(images)), expected)
    with pytest.raises(ValueError, match="must not name objects.*Received: .*'Doubling'"):
        model.save_to_preset(tmp_path / "preset")
    assert not (tmp_path / "preset").exists()


def test_preset_stores_mixer_layers(tmp_path):
    model = tiny("ViT", mixer=lambda index: CSP(group_size=4 if index else 2))
    model.save_to_preset(tmp_path / "preset")
    loaded = type(model).from_preset(tmp_path / "preset")
    images = model.make_inputs(seed=0, batch=2)
    np.testing.assert_array_equal(to_numpy(loaded(images)), to_numpy(model(images)))
    assert [loaded.get_layer(f"block_{index}").mixer.group_size for index in range(2)] == [2, 4]


def test_positional_flags_are_checked():
    with pytest.raises(ValueError, match="`use_qkv_bias` must be True or False.*'no'"):
        SoftmaxAttention(2, None, "no")


def test_weights_start_with_different_values():
    graphs = {"x": (None, 4, 3), "in_degree": (None, 4), "out_degree": (None, 4)}
    built = {
        MegaBlock(8, 8, mlp_dim=8, attention={"position_bias": "rotary"}): (None, 4, 8),
        GraphEmbedding(8): graphs,
        PositionEmbedding(True, max_tokens=5): (None, 4, 8),
    }
    for layer, shape in built.items():
        layer.build(shape)
        starts = [to_numpy(weight).ravel()[:8].tolist() for weight in layer.weights]
        drawn = [start for start in starts if len(set(start)) > 1]
        assert len(drawn) > 1 and len(set(map(tuple, drawn))) == len(drawn)
