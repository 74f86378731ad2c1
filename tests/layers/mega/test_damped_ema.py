"""Test DampedEMA against the authors' values and NumPy."""

import numpy as np
import pytest

from keras_permix import ops
from keras_permix.layers import DampedEMA
from tests.harness import assert_close, load_golden, to_numpy
from tests.oracle import mega as oracle

X = np.random.default_rng(0).normal(size=(3, 12, 8)).astype("float32")
MASK = np.random.default_rng(1).random((3, 12)) < 0.7


@pytest.mark.parametrize("direction", ["uni", "bi"])
def test_layer_matches_authors(direction):
    golden = load_golden("mega_parts")
    layer = DampedEMA(2, bidirectional=direction == "bi")
    layer.build(golden["x"].shape)
    layer.set_weights([golden[f"{direction}_{weight.name}"] for weight in layer.weights])
    assert_close(to_numpy(layer(golden["x"].astype("float32"))), golden[f"{direction}_out"])


@pytest.mark.parametrize("direction", ["uni", "bi"])
def test_impulse_response_matches_authors(direction):
    """The impulse response of each direction equals its rows of the kernel."""
    golden = load_golden("mega_parts")
    kernel = golden[f"{direction}_kernel"]
    impulse = np.eye(1, kernel.shape[1])[..., None] * np.ones(4)
    weights = [golden[f"{direction}_{name}"] for name in ("delta", "alpha", "beta", "gamma")]
    for first in range(0, len(kernel), 4):
        rows = slice(first, first + 4)
        arguments = [weight[rows].astype("float32") for weight in weights]
        taps = ops.damped_ema(impulse.astype("float32"), *arguments, np.zeros(4, "float32"))
        assert_close(to_numpy(taps)[0].T, kernel[rows])


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize(
    "arguments",
    [dict(), dict(ema_dim=3, truncation=4), dict(bidirectional=True, truncation=2)],
)
def test_layer_matches_numpy(arguments, masked):
    layer = DampedEMA(**arguments)
    mask = MASK if masked else None
    outputs = to_numpy(layer(X, mask=mask))
    weights = [weight.numpy().astype("float64") for weight in layer.weights]
    wanted = oracle.silu(oracle.damped_ema(X, *weights, layer.truncation, mask))
    assert_close(outputs, wanted)


def test_initial_weights_match_authors():
    layer = DampedEMA(64, bidirectional=True)
    layer.build((None, None, 512))
    delta, alpha, beta, gamma, omega = (weight.numpy() for weight in layer.weights)
    assert omega.shape == (512,) and beta.shape == (1024, 64)
    for weight, deviation in ((delta, 0.2), (alpha, 0.2), (gamma, 1.0), (omega, 1.0)):
        assert abs(weight.mean()) < 0.15 * deviation
        assert abs(weight.std() / deviation - 1) < 0.15
    signs = np.tile([1.0, -1.0], 32)
    np.testing.assert_allclose(beta.mean(axis=0), signs, atol=0.01)
    assert 0.019 < (beta - signs).std() < 0.021


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (dict(ema_dim=0), "`ema_dim` must be a positive integer.*0"),
        (dict(truncation=1.5), "`truncation` must be a positive integer.*1.5"),
    ],
)
def test_invalid_argument_raises(arguments, message):
    with pytest.raises(ValueError, match=message):
        DampedEMA(**arguments)


def test_invalid_shape_raises():
    with pytest.raises(ValueError, match="must have the shape .batch, tokens"):
        DampedEMA()(X[0])
