"""Test that models made from another model share no weights with it."""

import keras
import numpy as np
import pytest

from keras_permix import swap_mixer
from keras_permix.layers import CSP, SoftmaxAttention
from tests.harness import to_numpy
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


@pytest.mark.parametrize("name", MADE)
def test_training_a_copy_does_not_change_the_model(name):
    make, copy = MADE[name]
    model = make()
    inputs = model.make_inputs(0, 2) if hasattr(model, "make_inputs") else TOKENS
    expected = to_numpy(model(inputs, training=False))
    other = copy(model)
    other.predict(inputs, verbose=0)
    other.compile("sgd", "mse")
    other.fit(inputs, np.ones(other(inputs).shape, "float32"), verbose=0)
    np.testing.assert_array_equal(to_numpy(model(inputs, training=False)), expected)
    model.predict(inputs, verbose=0)
    assert np.isfinite(to_numpy(other(inputs, training=False))).all()
