"""Test `swap_mixer` on zoo models: configurations and transferred weights."""

import copy

import keras
import numpy as np
import pytest

from keras_permix import swap_mixer, zoo
from keras_permix.layers import CSP, SimpleAttentionBlock
from keras_permix.layers.mixers import mixer_at
from tests.harness import assert_close, to_numpy
from tests.zoo.models import tiny


def test_model_inside_another_does_not_warn(recwarn):
    inner = tiny("ViT")
    swapped = swap_mixer(keras.Model(inner.input, inner(inner.input) * 2.0), "csp")
    assert any(isinstance(layer, CSP) for layer in swapped._flatten_layers())
    assert not [str(one.message) for one in recwarn if "clone_model" in str(one.message)]


def test_block_that_makes_its_attention_warns():
    tokens = keras.Input((8, 6))
    model = keras.Model(tokens, SimpleAttentionBlock(2, 8)(tokens))
    with pytest.warns(UserWarning, match="create attention .SimpleAttentionBlock"):
        swap_mixer(model, "csp")


def test_vit():
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
    for chosen in (np.int64(1), np.array([0, 1])):
        again = swap_mixer(swapped, "slice_sort", layers=chosen)
        assert mixer_at(again.get_config()["mixer"], 1)["name"] == "slice_sort"
    assert again.get_config()["mixer"]["name"] == "slice_sort"
    again = zoo.ViT.from_config(swapped.get_config())
    again.set_weights(swapped.get_weights())
    np.testing.assert_array_equal(to_numpy(again(images)), to_numpy(swapped(images)))


@pytest.mark.parametrize("arguments", [{}, {"num_heads": 4}], ids=str)
def test_softmax_to_simple_attention_keeps_projections(arguments):
    model = tiny("ViT")
    swapped = swap_mixer(model, {"name": "simple_attention", **arguments})
    for index in range(2):
        ours, theirs = (m.get_layer(f"block_{index}").mixer for m in (swapped, model))
        assert_close(to_numpy(ours.qkv_dense.kernel), to_numpy(theirs.qkv_dense.kernel))
        assert_close(to_numpy(ours.output_dense.kernel), to_numpy(theirs.output_dense.kernel))


@pytest.mark.once
def test_num_heads_must_divide_projections():
    with pytest.raises(ValueError, match="`num_heads` must divide 8 channels"):
        swap_mixer(tiny("ViT"), {"name": "simple_attention", "num_heads": 3})


def check_kept_weights(model, swapped, changed=()):
    """Check that weights are kept, except for paths in `changed`. Returns the first features."""
    old = {weight.path: to_numpy(weight) for weight in model.weights}
    for weight in swapped.weights:
        if not any(part in weight.path for part in changed):
            np.testing.assert_array_equal(to_numpy(weight), old[weight.path], weight.path)
    inputs = model.make_inputs(0, 2)
    first = [to_numpy(one.features(inputs, layers=[0])[0]) for one in (model, swapped)]
    again = type(model).from_config(swapped.get_config())
    again.set_weights(swapped.get_weights())
    np.testing.assert_array_equal(to_numpy(again(inputs)), to_numpy(swapped(inputs)))
    return first


@pytest.mark.once
@pytest.mark.parametrize("variant", ["softmax", "simple_resl", "simple"])
def test_simpletron(variant):
    model = tiny("SimpleTRON", variant=variant)
    swapped = swap_mixer(model, "csp", layers=-1)
    assert swapped.get_config()["mixer"][0] is None
    before, after = check_kept_weights(model, swapped, changed=["block_1/attention/value"])
    np.testing.assert_array_equal(after, before)
    (kernel, bias), mixer = (
        model.get_layer("block_1").mixer.qkv_dense.get_weights(),
        swapped.get_layer("block_1").mixer,
    )
    assert isinstance(mixer, CSP) and mixer.use_output_projection == (variant != "simple")
    np.testing.assert_array_equal(to_numpy(mixer.value_dense.kernel), kernel[:, 16:])
    np.testing.assert_array_equal(to_numpy(mixer.value_dense.bias), bias[16:])
    attends = swap_mixer(swapped, "attention", layers=[1]).get_layer("block_1").mixer
    assert attends.num_heads == model.get_config()["num_heads"]
    every = swap_mixer(swapped, {"name": "linformer", "num_heads": 2, "mixtures": 3})
    assert np.isfinite(to_numpy(every(model.make_inputs(0, 2)))).all()


@pytest.mark.once
def test_butterfly_vit():
    model = tiny("ButterflyViT")
    swapped = swap_mixer(model, {"name": "csp", "group_size": 4}, layers=[1])
    before, after = check_kept_weights(model, swapped, changed=["block_1/transformer/mixer/value"])
    np.testing.assert_array_equal(after, before)
    mixer = swapped.get_layer("block_1").block.mixer
    kernel = to_numpy(model.get_layer("block_1").block.mixer.qkv_dense.kernel)
    np.testing.assert_array_equal(to_numpy(mixer.value_dense.kernel), kernel[:, 16:])
    with pytest.raises(ValueError, match="`group_size` must divide"):
        swap_mixer(model, {"name": "csp", "group_size": 3})


@pytest.mark.once
def test_mega_keeps_gates():
    model = tiny("MEGA")
    swapped = swap_mixer(model, {"name": "csp", "group_size": 3}, layers=[1])
    before, after = check_kept_weights(model, swapped, changed=["block_1/gate"])
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
    before, after = check_kept_weights(model, swapped)
    np.testing.assert_array_equal(after, before)
    paths = {weight.path for weight in swapped.weights if "block_1/mixer/" in weight.path}
    assert {path.split("/")[2] for path in paths} == {"value", "output"}


@pytest.mark.once
def test_one_mixer_per_block_or_one_for_all():
    assert tiny("ViT", mixer=["csp", "csp"]).get_config()["mixer"] == {"name": "csp"}
    with pytest.raises(ValueError, match="`mixer` must be one mixer, or a list of 2.*csp"):
        tiny("ViT", mixer=["csp"])


def test_frozen_projections_stay_frozen_in_copies():
    model = tiny("SimpleTRON", variant="simple_resl").with_variant("softmax", freeze=True)
    swapped = swap_mixer(model, "csp")
    frozen = [weight.path for weight in swapped.non_trainable_weights]
    assert frozen == [f"block_{n}/attention/value/{k}" for n in (0, 1) for k in ("kernel", "bias")]
    for other in (copy.deepcopy(swapped), swapped.reset_classifier(4)):
        assert [weight.path for weight in other.non_trainable_weights] == frozen


@pytest.mark.once
def test_attention_of_mega_trains_after_a_swap():
    model = tiny("CSPMEGA", keep_unused_params=True)
    unused = [weight.path for weight in model.non_trainable_weights]
    assert unused and all("/attention/" in path for path in unused)
    swapped = swap_mixer(model, "softmax")
    assert not swapped.non_trainable_weights
    back = swap_mixer(swapped, "csp")
    assert [weight.path for weight in back.non_trainable_weights] == unused


@pytest.mark.once
@pytest.mark.parametrize("chosen", [None, [1]])
def test_new_mixers_have_the_steps_of_the_image_size(chosen, tmp_path):
    tiny("ViT").save_to_preset(tmp_path / "preset")
    model = zoo.ViT.from_preset(tmp_path / "preset", image_size=16)
    mixer = swap_mixer(model, "csp", layers=chosen).get_layer("block_1").mixer
    np.testing.assert_array_equal(mixer.steps(64, 8), CSP().steps(64, 8))
