"""Test `look_inside`: maps, rollouts, spectra, residuals and plots of all model families."""

import sys

import keras
import numpy as np
import pytest

from keras_permix import layers
from keras_permix.analysis import (
    MixingMap,
    look_inside,
    mixing_maps,
    permutation_maps,
    rank_residual,
    rollout,
    singular_spectrum,
    token_norm,
)
from keras_permix.layers.graph.graphormer_block import GraphSliceSort
from tests.harness import assert_close, to_numpy
from tests.oracle import attention as oracle
from tests.zoo.models import TINY, tiny

pytestmark = pytest.mark.once
KINDS = {
    "ButterflyMixer": "block", "CSPMEGA": "permutation", "CSPViT": "permutation",
    "LRATransformer": "permutation", "MLPMixer": "block", "SliceViT": "permutation",
}  # fmt: skip
TOKENS = np.random.default_rng(0).normal(size=(2, 8, 6)).astype("float32")


@pytest.mark.parametrize("class_name", TINY)
def test_every_family(class_name, tmp_path):
    inside = look_inside(tiny(class_name), picture=tmp_path / "inside.png")
    assert (tmp_path / "inside.png").read_bytes().startswith(b"\x89PNG")
    maps = inside.maps
    assert len(maps) == (0 if class_name == "PatchOnlyMLPMixer" else 2)
    assert {one.kind for one in maps} <= {KINDS.get(class_name, "attention")}
    tokens = [one.map.shape for one in maps]
    assert all(shape == (tokens[0][0],) * 2 for shape in tokens)
    if maps:
        np.testing.assert_allclose(inside.rollout.sum(axis=1), 1)
    else:
        assert inside.rollout is None and "not tokens" in inside.missing[0]
    assert len(inside.spectra) == len(inside.residuals) == 2
    assert np.all(inside.spectra[:, 0] == 1) and np.all(inside.residuals > 0)
    noted = ("MEGA", "CSPMEGA", "MLPMixer", "ButterflyMixer", "PatchOnlyMLPMixer")
    assert bool(inside.missing) == (class_name in noted)


def map_of(layer, tokens=TOKENS):
    inputs = keras.Input(tokens.shape[1:])
    model = keras.Model(inputs, layer(inputs))
    (found,) = mixing_maps(model, tokens)
    return found


def test_measured_map_of_a_feature_map():
    layer = layers.LinearAttention(2)
    found = map_of(layer, TOKENS.reshape(2, 4, 2, 6))
    assert found.kind == "measured"
    np.testing.assert_array_equal(found.map, map_of(layer).map)


def test_permutation_maps_are_averaged_over_channels():
    layer = layers.CSP(group_size=4, shift="unit")
    found = map_of(layer)
    assert found.kind == "permutation"
    assert_close(found.map, permutation_maps(layer, TOKENS).mean(axis=(0, 1)))


def test_attention_is_averaged_over_heads():
    layer = layers.SoftmaxAttention(2)
    found = map_of(layer)
    qkv = TOKENS @ to_numpy(layer.qkv_dense.kernel)
    query, key = (qkv[..., i * 6 : i * 6 + 6].reshape(2, 8, 2, 3) for i in (0, 1))
    scores = np.exp(np.einsum("bqhd,bkhd->bhqk", query, key) / np.sqrt(3))
    assert_close(found.map, (scores / scores.sum(-1, keepdims=True)).mean(axis=(0, 1)))


@pytest.mark.parametrize("arguments", [dict(), dict(scale="valid", causal=True)], ids=str)
def test_simple_attention_is_averaged_by_size(arguments):
    layer, mask = layers.SimpleAttention(2, **arguments), np.arange(8) < np.array([[8], [5]])
    inputs = keras.Input((8, 6)), keras.Input((8,), dtype="bool")
    model = keras.Model(inputs, layer(inputs[0], mask=inputs[1]))
    for sample in ([0], [1]):
        (found,) = mixing_maps(model, [TOKENS[sample], mask[sample]])
        qkv = to_numpy(layer.qkv_dense(TOKENS[sample]))
        query, key = (qkv[..., i * 6 : i * 6 + 6].reshape(1, 8, 2, 3) for i in (0, 1))
        maps = oracle.simple_attention_maps(query, key, mask[sample], **arguments)
        wanted = abs(maps).mean(axis=(0, 1)) * mask[sample].T
        assert found.kind == "attention"
        assert_close(found.map, wanted)


def test_attention_within_butterfly_blocks_reproduces_outputs():
    attention = layers.SoftmaxAttention(1)
    layer, mask = layers.ButterflyBlock(attention, 4, stage=1), np.arange(16) % 5 > 0
    inputs = keras.Input((16, 6)), keras.Input((16,), dtype="bool")
    model, tokens = keras.Model(inputs, layer(inputs[0], mask=inputs[1])), TOKENS.reshape(1, 16, 6)
    (found,) = mixing_maps(model, [tokens, mask[None]])
    kernel, bias = map(to_numpy, attention.output_dense.weights)
    values = tokens[0] @ to_numpy(attention.qkv_dense.kernel)[:, 12:]
    outputs = to_numpy(layer(tokens, mask=mask[None]))[0]
    assert_close((found.map @ values @ kernel + bias)[mask], outputs[mask])
    assert (found.map > 0).sum() < 16 * 4


def test_keras_attention():
    layer, inputs = keras.layers.MultiHeadAttention(2, 3), keras.Input(TOKENS.shape[1:])
    (found,) = mixing_maps(keras.Model(inputs, layer(inputs, inputs)), TOKENS)
    _, scores = layer(TOKENS, TOKENS, return_attention_scores=True)
    assert_close(found.map, to_numpy(scores).mean(axis=(0, 1)))
    image, inputs = TOKENS.reshape(2, 4, 2, 6), keras.Input((4, 2, 6))
    layer = keras.layers.MultiHeadAttention(2, 3)
    (found,) = mixing_maps(keras.Model(inputs, layer(inputs, inputs)), image)
    _, scores = layer(image, image, return_attention_scores=True)
    assert_close(found.map, to_numpy(scores).mean(axis=(0, 1)).reshape(8, 8))
    ids = np.array([[1, 2, 0, 0], [1, 2, 3, 0]])
    inputs = keras.Input((4,), dtype="int32")
    embedded = keras.layers.Embedding(5, 6, mask_zero=True)(inputs)
    padded = keras.Model(inputs, keras.layers.MultiHeadAttention(2, 3)(embedded, embedded))
    (found,) = mixing_maps(padded, ids)
    np.testing.assert_array_equal(found.mask, ids > 0)
    assert_close(found.map.sum(axis=1), [1, 1, 1, 0])
    inputs = keras.Input((4, 2, 6))
    axial = keras.layers.MultiHeadAttention(2, 3, attention_axes=1)
    with pytest.raises(ValueError, match=r"all tokens. Received: attention_axes=\(1,\)"):
        mixing_maps(keras.Model(inputs, axial(inputs, inputs)), image)


def test_any_layer_as_a_mixer_has_a_map():
    attention = keras.layers.GroupQueryAttention(4, 2, 1)
    inside = look_inside(tiny("ViT", mixer=lambda index: "csp" if index else attention))
    assert [one.kind for one in inside.maps] == ["measured", "permutation"]
    assert not inside.missing
    found = look_inside(tiny("ButterflyViT", mixer=keras.layers.MultiHeadAttention(2, 4)))
    assert [one.kind for one in found.maps] == ["attention"] * 2


class Holder(keras.layers.Layer):
    """Call a mixer that other layers may call, too."""

    def __init__(self, mixer):
        super().__init__()
        self.mixer = mixer

    def call(self, x):
        return x + self.mixer(x)


def test_shared_mixer_has_one_map_per_call():
    mixer, inputs = layers.CSP(), keras.Input(TOKENS.shape[1:])
    model = keras.Model(inputs, Holder(mixer)(Holder(mixer)(inputs)))
    assert len(mixing_maps(model, TOKENS)) == 2


def test_local_attention_is_measured():
    found = map_of(layers.LocalAttention(2, block_size=4))
    assert found.kind == "measured" and (found.map[:4, 4:] == 0).all() and found.map[0, 3] > 0


@pytest.mark.parametrize("norm_first", [None, True, False])
def test_permutations_within_butterfly_blocks_are_exact(norm_first):
    """Use stage 1: blocks of 4 among 16 tokens, 4 positions apart."""
    tokens = np.random.default_rng(0).normal(size=(2, 16, 6)).astype("float32")
    mixer = layers.CSP(shift="unit")
    block = mixer if norm_first is None else layers.MixerBlock(mixer, 8, norm_first=norm_first)
    found = map_of(layers.ButterflyBlock(block, 4, stage=1), tokens)
    seen, wanted = tokens, np.zeros((16, 16))
    if norm_first:
        seen = (tokens - tokens.mean(-1, keepdims=True)) / tokens.std(-1, keepdims=True)
    for start in range(4):
        positions = start + 4 * np.arange(4)
        maps = permutation_maps(mixer, seen[:, positions])
        wanted[np.ix_(positions, positions)] = maps.mean(axis=(0, 1))
    assert found.kind == "permutation"
    assert_close(found.map, wanted)


def test_kinds_of_butterfly_maps():
    model = tiny("ButterflyViT", mixer=["csp", "linear_attention"])
    kinds = [one.kind for one in mixing_maps(model, model.make_inputs(0, 2))]
    assert kinds == ["permutation", "block"]
    assert map_of(layers.ButterflyBlock(layers.LinearAttention(2), 4)).kind == "measured"


def test_padding_has_no_influence():
    model = tiny("LRATransformer")
    tokens = np.ones((2, 12), "int32")
    mask = np.arange(12) < np.array([[5], [7]])
    found = mixing_maps(model, {"tokens": tokens, "mask": mask})[0]
    real = found.mask.sum(axis=1)  # including the class token
    assert real.tolist() == [6, 8]
    assert_close(found.map.sum(axis=1), np.arange(13) < 8)
    assert not found.map[:, 8:].any()


@pytest.mark.parametrize("mixer", ["damped_ema", "linear_attention"])
def test_measured_maps_ignore_padding(mixer):
    """The row of a token that is real in only one sample is that of this sample."""
    model = tiny("LRATransformer", mixer=mixer)
    tokens = np.ones((2, 12), "int32")
    mask = np.arange(12) < np.array([[3], [7]])
    found = mixing_maps(model, {"tokens": tokens, "mask": mask})[0]
    assert found.kind == "measured" and not found.map[8:].any() and not found.map[:, 8:].any()
    alone = mixing_maps(model, {"tokens": tokens[1:], "mask": mask[1:]})[0]
    np.testing.assert_allclose(found.map[4:8].sum(), alone.map[4:8].sum(), rtol=0.5)


def test_mega_map_reproduces_attention():
    model = tiny("MEGA", chunk_size=None)
    inputs = model.make_inputs(0, 1)
    block = model.get_layer("block_0")
    embedded = keras.Model(model.input, block.input[0])(inputs)
    x = block._begin(embedded, inputs["mask"])
    values = block._values(x)
    shared = block._gates(block.ema(x, mask=inputs["mask"]))[1]
    mixed = to_numpy(block.attention(shared, values, mask=inputs["mask"]))
    real = inputs["mask"][0]
    found = mixing_maps(model, inputs)[0].map
    assert_close((found @ to_numpy(values)[0])[real], mixed[0][real])


@pytest.mark.parametrize("mode", ["paper", "release"])
def test_maps_of_graph_slice_sort(mode):
    """Use two heads of one channel each, and samples with six and eight nodes."""
    mixer = GraphSliceSort(2, mode=mode, order="descend")
    tokens, mask = TOKENS[..., :2], np.arange(8) < np.array([[6], [8]])
    bias = np.random.default_rng(1).normal(size=(2, 2, 8, 8)).astype("float32")
    inputs = keras.Input((8, 2)), keras.Input((2, 8, 8)), keras.Input((8,), dtype="bool")
    model = keras.Model(inputs, mixer(inputs[0], inputs[1], tokens_mask=inputs[2]))
    for sample, nodes in enumerate((6, 8)):
        (found,) = mixing_maps(model, [tokens[[sample]], bias[[sample]], mask[[sample]]])
        values = tokens[sample, :nodes] @ to_numpy(mixer.value_dense.kernel)
        maps = []
        for head, scores in enumerate(np.exp(bias[sample, :, :nodes, :nodes])):
            means = scores / scores.sum(axis=-1, keepdims=True)
            if mode == "paper":
                maps.append(means[np.argsort(-(means @ values[:, head]))])
            else:
                maps.append((means + np.eye(nodes)[np.argsort(-values[:, head])]) / 2)
        assert found.kind == "attention"
        assert_close(found.map[:nodes, :nodes], np.mean(maps, axis=0))
        assert not found.map[nodes:].any() and not found.map[:, nodes:].any()


def test_rollout_is_product_of_maps_with_skips():
    matrices = np.array([[1.0, 3.0], [0.0, 2.0]]), np.array([[0.0, -1.0], [0.0, 0.0]])
    first, second = (MixingMap("", "attention", matrix, None) for matrix in matrices)
    one = np.array([[0.25, 0.75], [0.0, 1.0]]) / 2 + np.eye(2) / 2
    other = np.array([[0.0, 1.0], [0.0, 1.0]]) / 2 + np.eye(2) / 2  # an empty row keeps its token
    np.testing.assert_allclose(rollout([first, second]), other @ one)
    block = first._replace(kind="block")
    np.testing.assert_allclose(rollout([block, second]), other @ [[0.25, 0.75], [0.0, 1.0]])


def test_spectra_and_residuals_match_features():
    model = tiny("ViT")
    images = model.make_inputs(0, 2)
    inside = look_inside(model, images)
    for index, tokens in enumerate(model.features(images)):
        spectra = singular_spectrum(tokens)
        assert_close(inside.spectra[index], np.mean(spectra / spectra[:, :1], axis=0))
        shares = token_norm(rank_residual(tokens)) / token_norm(tokens)
        assert_close(inside.residuals[index], shares.mean())


def test_sample_without_real_tokens_raises():
    model = tiny("LRATransformer", pooling="mean")
    mask = np.arange(12) < np.array([[5], [0], [7]])
    with pytest.raises(ValueError, match="a real token per sample. Received: only padding"):
        look_inside(model, {"tokens": np.ones((3, 12), "int32"), "mask": mask})


def test_picture_without_matplotlib_raises(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(ImportError, match=r"picture='inside.png' .*keras_permix\[train\]"):
        look_inside(tiny("ViT"), picture="inside.png")


def test_unsupported_model_raises():
    with pytest.raises(TypeError, match="`model` must be a model of the zoo.*Received: Sequential"):
        look_inside(keras.Sequential([keras.Input((4,)), keras.layers.Dense(3)]))
