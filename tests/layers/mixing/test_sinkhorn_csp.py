"""Test SinkhornCSP against NumPy and CSP, and its errors."""

import keras
import numpy as np
import pytest

from keras_permix.layers import CSP, SinkhornCSP
from tests.harness import assert_close, to_numpy
from tests.oracle import attention as oracle
from tests.oracle import permutations
from tests.zoo.models import tiny

X = np.random.default_rng(0).normal(size=(3, 12, 8)).astype("float32")
MASK = np.random.default_rng(1).random((3, 12)) < 0.7


def make(**arguments):
    """Return a built layer with nonzero biases."""
    layer = SinkhornCSP(**arguments)
    layer.build(X.shape)
    for weight in layer.trainable_weights:
        weight.assign(weight + 0.1)
    return layer


def expected(layer, inputs, steps, temperature, mask=None):
    """Return the expected output in float64."""
    values = inputs @ layer.value_dense.kernel.numpy()
    options = (steps, layer.group_size, 500, temperature, mask)
    mixed = oracle.sinkhorn_csp(values, *options)
    return mixed @ layer.output_dense.kernel.numpy() + layer.output_dense.bias.numpy()


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("group_size", [2, 4, None])
def test_layer_matches_numpy(group_size, masked):
    layer = make(temperature=2.0, iterations=50, group_size=group_size)
    steps, mask = permutations.schedule("linear", 8), MASK if masked else None
    assert_close(to_numpy(layer(X, mask=mask)), expected(layer, X, steps, 2.0, mask))


@pytest.mark.parametrize("shift", ["linear", [5, -1, 0, 14, 3, 2, 7, 1]])
def test_layer_supports_any_length(shift):
    layer = make(temperature=2.0, iterations=20, shift=shift)
    inputs = keras.Input((None, 8))
    model = keras.Model(inputs, layer(inputs))
    for tokens in (4, 6, 12):
        part = X[:, :tokens]
        steps = permutations.schedule(shift, 8) if shift == "linear" else shift
        wanted = expected(layer, part, steps, 2.0)
        assert_close(model.predict(part, verbose=0), wanted)


def test_low_temperature_converges_to_csp():
    soft = make(group_size=4, iterations=10)
    hard = CSP(group_size=4, align="reference")
    hard.build(X.shape)
    hard.set_weights([weight.numpy() for weight in soft.trainable_weights])
    inputs = keras.Input(X.shape[1:])
    model = keras.Model(inputs, soft(inputs))
    warm = model.predict(X, verbose=0)
    soft.temperature.assign(1e-5)
    cold, limit = model.predict(X, verbose=0), to_numpy(hard(X))
    assert np.abs(warm - limit).max() > 0.1
    assert_close(cold, limit, kind="limit")
    assert SinkhornCSP.from_config(soft.get_config()).temperature == np.float32(1e-5)


@pytest.mark.once
def test_copies_keep_the_temperature_of_each_block():
    model = tiny(mixer="sinkhorn_csp")
    for index in range(2):
        model.get_layer(f"block_{index}").mixer.temperature.assign(0.5 + index)
    other = model.reset_classifier(5)
    layers = [other.get_layer(f"block_{index}").mixer for index in range(2)]
    assert [float(layer.temperature.numpy()) for layer in layers] == [0.5, 1.5]
    assert SinkhornCSP(temperature=0.25).get_config()["temperature"] == 0.25


def test_gradient_reaches_reference_channel():
    """The reference channel learns even if the output reads only the channel that it sorts."""
    layer = SinkhornCSP(inner_dim=2, group_size=4)
    inputs = keras.Input(X.shape[1:])
    model = keras.Model(inputs, layer(inputs))
    layer.output_dense.kernel.assign([[0.0] * 8, [1.0] * 8])
    before = layer.value_dense.kernel.numpy().copy()
    model.compile(keras.optimizers.SGD(1.0), "mse")
    model.fit(X, X, verbose=0)
    assert np.all(layer.value_dense.kernel.numpy()[:, 0] != before[:, 0])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (dict(temperature=0.0), "`temperature` must be a positive number.*0.0"),
        (dict(temperature="cold"), "`temperature` must be a positive number.*'cold'"),
        (dict(iterations=0), "`iterations` must be a positive integer.*0"),
        (dict(group_size=5), r"`group_size` must divide.*group_size=5.*12"),
    ],
)
def test_invalid_argument_raises(arguments, message):
    with pytest.raises(ValueError, match=f"(?s){message}"):
        SinkhornCSP(**arguments)(X)
