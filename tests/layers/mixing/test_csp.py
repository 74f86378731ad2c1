"""Test CSP against the authors' values and NumPy, and its errors."""

import keras
import numpy as np
import pytest

from keras_permix.layers import CSP
from keras_permix.ops.shift_steps import SCHEDULES
from tests.harness import assert_close, load_golden, to_numpy
from tests.oracle import permutations as oracle

X = np.random.default_rng(0).normal(size=(3, 12, 8)).astype("float32")
MASK = np.random.default_rng(1).random((3, 12)) < 0.7

ANY_LENGTH = [name for name in SCHEDULES if name != "grid"]


def expected(layer, inputs, steps, mask=None):
    """Return the expected output in float64."""
    group_size = layer.group_size or inputs.shape[1]
    values = inputs.astype("float64") @ layer.value_dense.kernel.numpy()
    if layer.use_value_bias:
        values = values + layer.value_dense.bias.numpy()
    values = oracle.values(values, oracle.csp(values, steps, group_size, layer.align, mask))
    if not layer.use_output_projection:
        return values
    return values @ layer.output_dense.kernel.numpy() + layer.output_dense.bias.numpy()


def make(**arguments):
    """Return a built layer with nonzero biases."""
    layer = CSP(**arguments)
    layer.build(X.shape)
    for weight in layer.weights:
        weight.assign(weight + 0.1)
    return layer


def test_layer_matches_authors():
    golden = load_golden("csp_attention")
    layer = CSP(shift=golden["shifts"])
    layer.build(golden["x"].shape)
    layer.set_weights([golden["value_kernel"], golden["out_kernel"], golden["out_bias"]])
    x = golden["x"].astype("float32")
    values = layer.value_dense(x)
    assert_close(to_numpy(values), golden["value"])
    assert_close(to_numpy(layer.mix(values)), golden["mixed"])
    assert_close(to_numpy(layer(x)), golden["out"])


CONFIGS = {
    "default": (dict(), "linear"),
    "shift only": (dict(group_size=1), "linear"),
    "groups of 4": (dict(group_size=4, shift="linear_code"), "linear_code"),
    "ragged groups of 5": (dict(group_size=5, ragged=True), "linear"),
    "full sort": (dict(group_size=None, shift="unit"), "unit"),
    "reference": (dict(group_size=4, align="reference"), "linear"),
    "third of five layers": (dict(shift="power", layer_index=2, num_layers=5), "power"),
    "steps": (dict(shift=[5, -1, 0, 14, 3, 2, 7, 1]), [5, -1, 0, 14, 3, 2, 7, 1]),
    "wide": (dict(inner_dim=24, use_value_bias=True), "linear"),
    "bare": (dict(use_output_projection=False), "linear"),
}


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("name", CONFIGS)
def test_layer_matches_numpy(name, masked):
    arguments, schedule = CONFIGS[name]
    layer = make(**arguments)
    steps = schedule
    if isinstance(schedule, str):
        facts = (layer.inner_dim or 8, layer.layer_index, layer.num_layers, layer.group_size or 1)
        steps = oracle.schedule(schedule, *facts)
    mask = MASK if masked else None
    assert_close(to_numpy(layer(X, mask=mask)), expected(layer, X, steps, mask))


@pytest.mark.parametrize("align", ["independent", "reference"])
@pytest.mark.parametrize("shift", [*ANY_LENGTH, [1, 0, 3, 2, 14, -7, 5, 2**40]], ids=str)
def test_padding_matches_shorter_sequence(shift, align):
    layer = make(align=align, shift=shift)
    steps = oracle.schedule(shift, 8) if isinstance(shift, str) else shift
    for length in (2, 6, 10):
        mask = np.zeros((3, 12), bool)
        mask[:, :length] = True
        alone = expected(layer, X[:, :length], steps)
        assert_close(to_numpy(layer(X, mask=mask))[:, :length], alone)


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize(
    ("schedule", "align"),
    [
        ("linear", "independent"),
        ("linear_paper", "reference"),
        ("linear_head", "independent"),
        ([5, -1, 0, 14], "reference"),
    ],
)
def test_steps_adapt_to_sequence_length(schedule, align, masked):
    """A model for any length computes the steps of the schedule for each length."""
    layer = make(inner_dim=4, shift=schedule, align=align)
    inputs, mask = keras.Input((None, 8)), keras.Input((None,), dtype="bool")
    model = keras.Model([inputs, mask], layer(inputs, mask=mask))
    steps = oracle.schedule(schedule, 4) if isinstance(schedule, str) else schedule
    for tokens in (4, 6, 12):
        part, marks = X[:, :tokens], MASK[:, :tokens] | (not masked)
        outputs = model.predict([part, marks], verbose=0)
        assert_close(outputs, expected(layer, part, steps, marks))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (dict(group_size=0), "`group_size` must be a positive integer.*0"),
        (dict(group_size=2.0), "`group_size` must be a positive integer.*2.0"),
        (dict(group_size=5), r"`group_size` must divide.*group_size=5.*12"),
        (dict(shift="curved"), "`shift` must be one of.*'curved'"),
        (dict(ragged="yes"), "`ragged` must be True or False.*'yes'"),
        (dict(layer_index=1.5, num_layers=3), "`layer_index` must be an integer.*layer_index=1.5"),
        (dict(shift=32), "`shift` must be a name, or a step per channel.*shift=32"),
        (dict(shift=[1, 2]), "`shift` must have one step per channel.*=2, ch"),
        (dict(align="both"), "`align` must be one of.*'both'"),
        (dict(inner_dim=0), "`inner_dim` must be a positive integer or None.*0"),
        (dict(dropout=1.0), r"`dropout` must be in \[0, 1\).*1.0"),
        (dict(layer_index=3, num_layers=3), "`layer_index` must count from 0 to 2.*layer_index=3"),
        (
            dict(inner_dim=4, use_output_projection=False),
            "`inner_dim` must be the input width.*inner_dim=4",
        ),
    ],
)
def test_invalid_argument_raises(arguments, message):
    with pytest.raises(ValueError, match=f"(?s){message}"):
        CSP(**arguments)(X)


@pytest.mark.parametrize("shape", [(2, 8), (2, 2, 4, 4, 8)])
def test_invalid_shape_raises(shape):
    with pytest.raises(ValueError, match=r"must have the shape \(batch, tokens, channels\)"):
        CSP()(np.zeros(shape, "float32"))
