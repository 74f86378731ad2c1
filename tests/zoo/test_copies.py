"""Test that models made from another model share no weights with it."""

import copy

import keras
import numpy as np
import pytest

from keras_permix import swap_mixer
from keras_permix.layers import CSP, SoftmaxAttention
from tests.harness import assert_close, to_numpy
from tests.zoo.models import tiny

TOKENS = np.random.default_rng(0).normal(size=(2, 8, 6)).astype("float32")


def custom_model():
    inputs = keras.Input((8, 6))
    mixed = SoftmaxAttention(2)(keras.layers.Dense(6)(inputs))
    return keras.Model(inputs, keras.layers.Dense(2)(mixed))


MADE = {
    "swapped": (custom_model, lambda model: swap_mixer(model, "simple_attention")),
    "swapped layers": (
        lambda: keras.Sequential([keras.Input((8, 6)), CSP(), keras.layers.Dense(2)]),
        lambda model: swap_mixer(model, "slice_sort"),
    ),
    "swapped zoo model": (lambda: tiny("ViT"), lambda model: swap_mixer(model, "csp")),
    "swapped MEGA": (lambda: tiny("MEGA"), lambda model: swap_mixer(model, "csp")),
    "other attention": (
        lambda: tiny("SimpleTRON"), lambda model: model.with_variant("softmax")
    ),
    "new head": (lambda: tiny("CSPViT"), lambda model: model.reset_classifier(5)),
}  # fmt: skip


def test_editing_a_config_keeps_the_model():
    model = tiny("CSPViT")
    expected = copy.deepcopy(model.get_config())
    model.get_config()["mixer"]["group_size"] = 4
    assert model.get_config() == expected


def test_config_holds_the_arguments():
    model = tiny("CSPViT")
    again = type(model)(**model.get_config())
    assert again.get_config() == model.get_config()


@pytest.mark.parametrize("frozen", ["backbone", "block_0", "backbone without a norm"])
def test_saved_model_keeps_frozen_layers_and_optimizer(frozen, tmp_path):
    model = tiny("CSPViT")
    part = model.get_layer(frozen) if frozen == "block_0" else model.backbone
    part.trainable = False
    if frozen == "backbone without a norm":
        model.get_layer("block_0").mixer_norm.trainable = True
    model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    inputs, labels = model.make_inputs(0, 4), np.arange(4) % 3
    model.fit(inputs, labels, verbose=0)
    model.save(tmp_path / "model.keras")
    copies = [keras.models.load_model(tmp_path / "model.keras"), copy.deepcopy(model)]
    trained = [weight.path for weight in model.trainable_weights]
    assert 0 < len(trained) < len(model.weights)
    for other in copies:
        assert [weight.path for weight in other.trainable_weights] == trained
    model.fit(inputs, labels, verbose=0)
    copies[0].fit(inputs, labels, verbose=0)
    for found, wanted in zip(copies[0].get_weights(), model.get_weights(), strict=True):
        assert_close(found, wanted, kind="model")


@pytest.mark.parametrize("name", MADE)
def test_training_a_copy_does_not_change_the_model(name):
    make, copied = MADE[name]
    model = make()
    inputs = model.make_inputs(0, 2) if hasattr(model, "make_inputs") else TOKENS
    expected = to_numpy(model(inputs, training=False))
    other = copied(model)
    other.predict(inputs, verbose=0)
    other.compile("sgd", "mse")
    other.fit(inputs, np.ones(other(inputs).shape, "float32"), verbose=0)
    np.testing.assert_array_equal(to_numpy(model(inputs, training=False)), expected)
    model.predict(inputs, verbose=0)
    assert np.isfinite(to_numpy(other(inputs, training=False))).all()
