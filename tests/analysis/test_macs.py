"""Test multiply-adds against counts by hand, and the report of layers without a rule.

Counts of the Dimension Mixer paper are tested in tests/zoo/test_mlp_mixer.py.
"""

from importlib.util import find_spec

import keras
import numpy as np
import pytest

from keras_permix import layers
from keras_permix.analysis import count_macs
from keras_permix.analysis.mac_rules import RULES
from keras_permix.layers import SoftmaxAttention
from keras_permix.layers.parts.wrappers import Dense
from keras_permix.zoo import MEGA, ButterflyViT, CSPViT, ViT
from tests.zoo.models import TINY, tiny

pytestmark = pytest.mark.once
SIZES = dict(image_size=8, patch_size=2, num_classes=3, hidden_dim=8, num_layers=2, mlp_dim=12)
IMAGE, PATCHES, EMBEDDING = 8 * 8 * 3, 16, 16 * (2 * 2 * 3) * 8


def mlp(tokens):
    """Count a norm, a dense layer from 8 to 12 with an activation, and one from 12 to 8."""
    return tokens * (8 + 8 * 12 + 12 + 12 * 8)


def head(features, normalized=True):
    return features * normalized + features * 3


@pytest.mark.parametrize("pooling", ["cls", "mean", "max"])
def test_attention(pooling):
    tokens = PATCHES + (pooling == "cls")
    projections = tokens * 8 * (3 * 4) + tokens * 4 * 8
    maps = 2 * tokens**2  # two heads of 2 channels
    attention = projections + maps * 2 + maps + maps * 2
    wanted = IMAGE + EMBEDDING + 2 * (tokens * 8 + attention + mlp(tokens)) + head(8)
    model = ViT(**SIZES, mixer=dict(name="attention", num_heads=2, head_dim=2), pooling=pooling)
    assert count_macs(model).total == wanted


def test_simple_attention():
    projections = PATCHES * 8 * (3 * 4) + PATCHES * 4 * 8
    products = 2 * (2 * 2) * PATCHES  # keys by values, two heads of 2 channels
    wanted = IMAGE + EMBEDDING + head(8)
    wanted += 2 * (PATCHES * 8 + projections + 2 * products + mlp(PATCHES))
    mixer = dict(name="simple_attention", num_heads=2, head_dim=2)
    assert count_macs(ViT(**SIZES, mixer=mixer)).total == wanted


def test_permutations_are_free():
    projections = PATCHES * 8 * 6 + PATCHES * 6 * 8
    wanted = IMAGE + EMBEDDING + 2 * (PATCHES * 8 + projections + mlp(PATCHES)) + head(8)
    for mixer in ("csp", "slice_sort"):
        model = CSPViT(**SIZES, mixer=dict(name=mixer, inner_dim=6))
        assert count_macs(model).total == wanted


def test_attention_within_blocks():
    projections = PATCHES * 8 * (3 * 8) + PATCHES * 8 * 8
    maps = 4 * 2 * 4**2  # 4 blocks of 4 tokens, two heads
    attention = projections + maps * 4 + maps + maps * 4
    wanted = IMAGE + EMBEDDING + head(PATCHES * 8, normalized=False)
    wanted += 2 * (PATCHES * 8 + attention + mlp(PATCHES))
    for order in (None, 1):
        model = ButterflyViT(**SIZES, num_heads=2, block_size=4, random_order=order)
        assert count_macs(model).total == wanted


def macs_of(layer):
    """Count a layer on 10 tokens of 4 channels, without its sublayers."""
    inputs = keras.Input((10, 4))
    macs = count_macs(keras.Model(inputs, layer(inputs)), np.ones((1, 10, 4), "float32"))
    assert not macs.uncounted
    return sum(count for path, count in macs.by_layer.items() if path == layer.path)


def test_efficient_attention():
    queries = 2 * 10  # 2 heads, 10 tokens
    # Features elu(x) + 1 of queries and keys, keys by values, queries by these, and the sums.
    layer = layers.LinearAttention(2, head_dim=2)
    assert macs_of(layer) == queries * (2 + 2) + 2 * queries * 2 * 2 + queries * 2
    # Projections of queries and keys to 3 directions, exponentials, and the same with 3 features.
    features = 2 * queries * 3 * 2 + 2 * queries * 3
    attended = 2 * queries * 3 * 2 + queries * 3
    assert macs_of(layers.PerformerAttention(2, features=3, head_dim=2)) == features + attended
    # 5 mixtures of keys and of values, scores, softmax, and weighted sums.
    mixed = 2 * queries * 5 * 2
    attended = queries * 5 * 2 + queries * 5 + queries * 5 * 2
    layer = layers.LinformerAttention(2, head_dim=2, mixtures=5)
    assert macs_of(layer) == mixed + attended
    # 3 blocks of 4 tokens, the last one padded, and 2 blocks of 5.
    layer = layers.LocalAttention(2, 4, head_dim=2)
    assert macs_of(layer) == 3 * 2 * (4 * 4 * 2 + 4 * 4 + 4 * 4 * 2)
    layer = layers.ButterflyAttention(2, 5, head_dim=2, layer_index=1, num_layers=2)
    assert macs_of(layer) == 2 * 2 * (5 * 5 * 2 + 5 * 5 + 5 * 5 * 2)


def test_sinkhorn_csp():
    # 2 channels are aligned with a third in 3 groups of 4 tokens, the last one padded.
    entries = 2 * 3 * 4 * 4
    layer = layers.SinkhornCSP(iterations=5, group_size=4, inner_dim=3, ragged=True)
    assert macs_of(layer) == entries + 5 * 2 * entries + entries
    # 3 channels are aligned with the first of 4, in one group of all tokens.
    assert macs_of(layers.SinkhornCSP(iterations=2, group_size=None)) == 3 * 10 * 10 * 6


def test_fourier_transform():
    inputs = keras.Input((8, 4))
    macs = count_macs(keras.Model(inputs, layers.FourierMixer()(inputs)), np.ones((1, 8, 4)))
    assert macs.total == 2 * 8 * 4 * (3 + 2)  # log2(8) = 3 and log2(4) = 2 stages


@pytest.mark.parametrize(
    ("arguments", "wanted"),
    [
        (dict(), 3 * 2),  # a state and an output for each of 3 decays
        (dict(bidirectional=True), 2 * 3 * 2),
        (dict(truncation=4), 3 * 3),  # and the token that leaves the average
    ],
)
def test_damped_ema(arguments, wanted):
    per_value = wanted + 2  # the value itself, and the activation
    assert macs_of(layers.DampedEMA(3, **arguments)) == 10 * 4 * per_value


@pytest.mark.parametrize("position_bias", ["simple", "rotary"])
@pytest.mark.parametrize("mixer", ["softmax", "laplace", "relu2", "csp"])
def test_mega(mixer, position_bias):
    model = MEGA(
        vocabulary_size=9, max_sequence_length=10, num_classes=3, hidden_dim=4, inner_dim=6,
        shared_dim=2,
        mlp_dim=5, classifier_dim=7, ema_dim=3, num_layers=2, mixer=mixer,
        position_bias=position_bias,
        chunk_size=None if mixer == "csp" else 4,
    )  # fmt: skip
    tokens = {"tokens": np.ones((1, 10), "int32"), "mask": np.ones((1, 10), bool)}
    shared = 0 if mixer == "csp" else 2
    average = 10 * 4 * (2 * 3 * 2 + 2)
    values = 10 * (4 * 6 + 6)  # and silu
    gates = 10 * (4 * (4 + shared + 6 + 4) + (4 + shared + 6))  # sigmoid, silu, silu
    attended = 0 if mixer == "csp" else 3 * 4 * 4 * (2 + 1 + 6)  # 3 chunks of 4
    hidden = 10 * (6 * 4 + 4)  # and silu
    mlp = 10 * (4 + 4 * 5 + 5 + 5 * 4)
    block = 10 * 4 + average + values + gates + attended + hidden + mlp
    head = 10 * 4 + 4 * 7 + 7 + 7 * 3
    macs = count_macs(model, tokens)
    assert macs.total == 2 * block + head and not macs.uncounted


@pytest.mark.parametrize("mixer", ["attention", "slice_sort"])
def test_graphormer(mixer):
    model = tiny("Graphormer", mixer=mixer, num_layers=1)
    macs = count_macs(model)
    nodes = macs.by_layer["head_norm"] // 8  # of a random graph, including the virtual node
    projections = (4 if mixer == "attention" else 2) * nodes * 8 * 8
    maps = 2 * nodes**2  # two heads of 4 channels
    attended = maps * 4 * (mixer == "attention") + maps + maps * 4
    block = nodes * 8 + projections + attended + nodes * (8 + 8 * 8 + 8 + 8 * 8)
    assert macs.total == block + nodes * 8 + 8 * 3 and not macs.uncounted


# With fused attention, which requires equal head sizes on JAX, and without it.
@pytest.mark.parametrize(("value_dim", "dropout"), [(3, 0.0), (2, 0.5)])
def test_keras_attention(value_dim, dropout):
    queries, keys = keras.Input((10, 4)), keras.Input((7, 5))
    attention = keras.layers.MultiHeadAttention(2, 3, value_dim=value_dim, dropout=dropout)
    model = keras.Model([queries, keys], attention(queries, keys))
    macs = count_macs(model, [np.ones((1, 10, 4)), np.ones((1, 7, 5))])
    projections = 2 * (10 * 4 * 3 + 7 * 5 * 3 + 7 * 5 * value_dim + 10 * value_dim * 4)
    assert macs.total == projections + 2 * 10 * 7 * (3 + 1 + value_dim) and not macs.uncounted


def test_keras_attention_along_one_axis():
    maps = keras.Input((3, 5, 4))
    attention = keras.layers.MultiHeadAttention(2, 3, attention_axes=2)
    model = keras.Model(maps, attention(query=maps, value=maps))
    macs = count_macs(model, np.ones((1, 3, 5, 4)))
    assert macs.total == 3 * (4 * 5 * 4 * 6 + 2 * 5 * 5 * (3 + 1 + 3))


def test_zoo_models_are_fully_counted():
    for class_name in TINY:
        assert count_macs(tiny(class_name)).uncounted == {}, class_name
    for class_name in ("LRATransformer", "MEGA", "SimpleTRON"):
        assert count_macs(tiny(class_name, pairs=True)).uncounted == {}, class_name


def test_text_input():
    model = tiny("SimpleTRON")
    assert count_macs(model, ["a text"]) == count_macs(model, model.encode(["a text"]))


def test_layers_made_when_first_called_are_counted():
    class Late(keras.Model):
        def build(self, shape):
            self.dense, self.mixer = keras.layers.Dense(8), layers.CSP()
            self.built = True

        def call(self, x):
            return self.mixer(self.dense(x))

    tokens, model = np.zeros((1, 16, 8), "float32"), Late()
    first = count_macs(model, tokens).total
    assert first == count_macs(model, tokens).total == 3 * 16 * 8 * 8


def test_counts_by_layer():
    macs = count_macs(tiny("ViT"))
    assert sum(macs.by_layer.values()) == macs.total
    assert macs.by_layer["patch_embedding/projection"] == EMBEDDING
    assert macs.by_layer["block_1/mixer_norm"] == PATCHES * 8
    assert not any(path.endswith(("logits", "block_0")) for path in macs.by_layer)


@pytest.mark.filterwarnings("ignore:.*does not have a `quantize` method")
def test_quantized_layers():
    model = keras.Sequential([keras.Input((5,)), Dense(4, "relu"), keras.layers.Dense(3)])
    model.quantize("int8")
    assert count_macs(model, np.ones((1, 5), "float32")).total == 5 * 4 + 4 + 4 * 3


def test_shared_layer_counts_twice():
    inputs, dense = keras.Input((5,)), keras.layers.Dense(5, "relu")
    model = keras.Model(inputs, keras.Sequential([dense])(dense(inputs)))
    assert count_macs(model, np.ones((1, 5))).total == 2 * (5 * 5 + 5)


def test_layers_without_rule_are_reported():
    inputs = keras.Input((4, 4, 3))
    layer = keras.layers.ActivityRegularization
    x = layer()(layer()(inputs))
    x = keras.ops.matmul(x, x[:, :, :3])
    x = keras.Sequential([layer(), keras.layers.Dense(7)])(x)
    model, image = keras.Model(inputs, x), np.ones((1, 4, 4, 3), "float32")
    macs = count_macs(model, image)
    assert macs.uncounted == {"ActivityRegularization": 3, "Matmul": 1}
    assert macs.total == 16 * 3 * 7
    more = count_macs(model, image, {layer: lambda layer, x, y: int(np.prod(y)) * x[-1]})
    assert more.total == macs.total + 3 * 16 * 3 * 3
    assert more.uncounted == {"Matmul": 1}


def test_subclass_does_not_inherit_rule():
    class Doubled(keras.layers.Dense):
        def call(self, inputs):
            return super().call(super().call(inputs))

    model = keras.Sequential([keras.Input((5,)), Doubled(5)])
    assert count_macs(model, np.ones((1, 5))) == (0, {}, {"Doubled": 1})


def test_subclass_can_reuse_rule_of_attention():
    class Renamed(layers.SimpleAttention):
        pass

    inputs = keras.Input((10, 4))
    layer = Renamed(2, head_dim=2)
    rules = {Renamed: RULES[layers.SimpleAttention]}
    macs = count_macs(keras.Model(inputs, layer(inputs)), np.ones((1, 10, 4), "float32"), rules)
    assert not macs.uncounted
    assert macs.by_layer[layer.path] == 2 * 10 * 2 * 2 * 2  # heads, tokens, two products


def test_layers_are_restored():
    model = tiny("ViT")
    before = [dict(vars(layer)) for layer in model._flatten_layers()]
    count_macs(model)
    broken = {SoftmaxAttention: lambda layer, x, y: 1 / 0}
    with pytest.raises(ZeroDivisionError):
        count_macs(model, rules=broken)
    for layer, held in zip(model._flatten_layers(), before, strict=True):
        assert vars(layer).keys() == held.keys() and "call" not in vars(layer)


@pytest.mark.parametrize("inputs", [None, np.ones((2, 5)), {}])
def test_wrong_inputs_raise(inputs):
    model = keras.Sequential([keras.Input((5,)), keras.layers.Dense(5)])
    with pytest.raises(ValueError, match="(?s)`inputs` must be a batch of one.*Received: inputs"):
        count_macs(model, inputs)


@pytest.mark.parametrize(
    ("layer", "products"),
    [
        (keras.layers.Conv2D(6, 3, strides=2, padding="same"), 4 * 4 * 6 * 9 * 4),
        (keras.layers.Conv2D(6, (1, 3), groups=2), 8 * 6 * 6 * 3 * 2),
        (keras.layers.Conv2D(6, 2, activation="relu"), 7 * 7 * 6 * (4 * 4 + 1)),
        (keras.layers.DepthwiseConv2D(3, depth_multiplier=2), 6 * 6 * 8 * 9),
        (keras.layers.AveragePooling2D(2), 0),
        (keras.layers.GlobalMaxPooling2D(), 0),
    ],
)
def test_convolutions_and_pooling(layer, products):
    inputs = keras.Input((8, 8, 4))
    macs = count_macs(keras.Model(inputs, layer(inputs)), np.ones((1, 8, 8, 4), "float32"))
    assert (macs.total, macs.uncounted) == (products, {})


@pytest.mark.parametrize("model_name", ["MobileNetV2", "ConvNeXtTiny"])
def test_keras_applications_are_fully_counted(model_name):
    make = getattr(keras.applications, model_name)
    model = make(weights=None, input_shape=(32, 32, 3), classes=3)
    macs = count_macs(model, np.ones((1, 32, 32, 3), "float32"))
    assert macs.total and macs.uncounted == {}


@pytest.mark.skipif(not find_spec("keras_hub"), reason="requires KerasHub")
def test_keras_hub_vit_is_fully_counted():
    from keras_hub.models import ViTBackbone

    sizes = dict(patch_size=2, num_layers=2, num_heads=2, hidden_dim=8, mlp_dim=12)
    model = ViTBackbone(image_shape=(8, 8, 3), **sizes)
    macs = count_macs(model, np.ones((1, 8, 8, 3), "float32"))
    tokens = 1 + PATCHES
    attention = 4 * tokens * 8 * 8 + 2 * tokens**2 * (4 + 1 + 4)
    block = tokens * 8 + attention + mlp(tokens)
    assert (macs.total, macs.uncounted) == (EMBEDDING + 2 * block + tokens * 8, {})
