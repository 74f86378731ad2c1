"""Test the Dense wrapper against NumPy and Keras."""

import keras
import numpy as np
import pytest

from keras_permix.layers.parts.wrappers import Dense
from tests.backends import value_and_gradient
from tests.harness import assert_close, to_numpy


@pytest.mark.parametrize("shape", [(5, 6), (2, 5, 6), (2, 3, 4, 6), (0, 5, 6)])
@pytest.mark.parametrize("use_bias", [True, False])
def test_values_and_gradients_match_numpy(shape, use_bias):
    layer = Dense(4, use_bias=use_bias, bias_initializer="random_normal")
    layer.build(shape)
    x, cotangent = (np.random.default_rng(0).normal(size=(*shape[:-1], n)) for n in (6, 4))
    value, gradient = value_and_gradient(layer, x.astype("float32"), cotangent.astype("float32"))
    kernel = layer.kernel.numpy()
    assert value.shape == (*shape[:-1], 4)
    assert_close(to_numpy(value), x @ kernel + (layer.bias.numpy() if use_bias else 0))
    assert_close(to_numpy(gradient), cotangent @ kernel.T)


def test_strided_input():
    layer = Dense(4)
    x = np.random.default_rng(0).normal(size=(2, 5, 12)).astype("float32")
    part = keras.ops.convert_to_tensor(x)[..., ::2]
    assert_close(to_numpy(layer(part)), x[..., ::2] @ layer.kernel.numpy())


@pytest.mark.parametrize("activation", [None, "gelu"])
def test_training_matches_keras(activation):
    x, y = np.random.default_rng(0).normal(size=(2, 8, 5, 6)).astype("float32")
    losses = []
    for make in (Dense, keras.layers.Dense):
        keras.utils.set_random_seed(0)
        model = keras.Sequential([make(6, activation), make(6)])
        model.compile("sgd", "mse")
        losses.append(model.fit(x, y, epochs=3, verbose=0).history["loss"])
    assert_close(*losses)


def test_lora_and_quantization():
    x = np.random.default_rng(0).normal(size=(2, 5, 6)).astype("float32")
    layer = Dense(4)
    exact = to_numpy(layer(x))
    layer.enable_lora(2)
    layer.lora_kernel_a.assign(np.ones((6, 2)))
    layer.lora_kernel_b.assign(np.ones((2, 4)))
    assert_close(to_numpy(layer(x)), exact + 2 * x.sum(-1, keepdims=True))
    layer = Dense(4)
    exact = to_numpy(layer(x))
    layer.quantize("int8")
    assert layer.dtype_policy.name == "int8_from_float32"
    assert 0 < np.abs(to_numpy(layer(x)) - exact).max() < 0.05
