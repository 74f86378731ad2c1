"""Test all implementations of `damped_ema` against the recurrence and the authors' values."""

import keras
import numpy as np
import pytest

from keras_permix import ops
from keras_permix.ops.damped_ema import damped_ema_stream
from keras_permix.ops.dispatch import dispatch
from tests.backends import compiled, value_and_gradient
from tests.harness import assert_close, load_golden, to_numpy
from tests.oracle import mega as oracle

NAMES = ("delta", "alpha", "beta", "gamma", "omega")
FORMS = ("chunked", "fft", "reference")


def make(tokens, directions=1, channels=3, dim=4):
    """Return tokens and parameters. The decays are slow enough to span many chunks."""
    rng = np.random.default_rng(tokens)
    rows = (directions * channels, dim)
    parameters = [rng.normal(size=rows) - shift for shift in (3, 1, 0, 0)]
    arrays = [rng.normal(size=(2, tokens, channels)), *parameters, rng.normal(size=channels)]
    return [array.astype("float32") for array in arrays]


def in_float64(arrays):
    return [array.astype("float64") for array in arrays]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("direction", ["uni", "bi"])
def test_values_match_authors(direction, form):
    golden = load_golden("mega_parts")
    parameters = [golden[f"{direction}_{name}"].astype("float32") for name in NAMES]
    x = golden["x"].astype("float32")
    outputs = keras.ops.silu(ops.damped_ema(x, *parameters, implementation=form))
    assert_close(to_numpy(outputs), golden[f"{direction}_out"])


def test_oracle_taps_match_authors():
    golden = load_golden("mega_parts")
    for direction in ("uni", "bi"):
        parameters = [golden[f"{direction}_{name}"] for name in NAMES[:4]]
        taps = oracle.ema_taps(*parameters, tokens=6)
        assert_close(taps, golden[f"{direction}_kernel"], "float64")


# Chunks have 64 tokens: less than a chunk, full chunks, and one more token than full chunks.
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    ("tokens", "truncation", "directions"),
    [
        (1, None, 2),
        (5, 3, 1),
        (64, None, 1),
        (65, 1, 2),
        (193, None, 1),
        (193, None, 2),
        (193, 64, 2),
        (193, 65, 1),
        (193, 130, 2),
    ],
)
def test_values_and_gradients(tokens, truncation, directions, form):
    x, *parameters = make(tokens, directions)
    mask = np.random.default_rng(1).random(x.shape[:2]) < 0.7
    cotangent = np.random.default_rng(2).normal(size=x.shape).astype("float32")
    outputs, gradient = value_and_gradient(
        lambda t: ops.damped_ema(
            t, *parameters, truncation=truncation, mask=mask, implementation=form
        ),
        x,
        cotangent,
    )
    arguments = (*in_float64(parameters), truncation, mask)
    assert_close(to_numpy(outputs), oracle.damped_ema(x, *arguments), kind="ema")
    wanted = oracle.damped_ema_gradient(cotangent, *arguments)
    assert_close(to_numpy(gradient), wanted, kind="ema")


@pytest.mark.parametrize("form", FORMS[:2])
@pytest.mark.parametrize(("directions", "truncation"), [(1, None), (2, None), (2, 5000)])
def test_many_tokens(directions, truncation, form):
    """Use more chunks than two levels of runs hold. Some backends split the channels."""
    x, *parameters = make(20_000, directions, channels=12)
    outputs = ops.damped_ema(x, *parameters, truncation=truncation, implementation=form)
    wanted = oracle.damped_ema_of_many(*in_float64([x, *parameters]), truncation)
    assert_close(to_numpy(outputs), wanted, kind="ema")


@pytest.mark.parametrize("form", FORMS)
def test_parameter_gradients(form):
    """Compare the gradient of every parameter with finite differences of the oracle."""
    arrays = make(70, directions=2, channels=2, dim=2)
    x, parameters = arrays[0], arrays[1:]
    step = np.random.default_rng(0)
    for number, parameter in enumerate(parameters):
        direction = step.normal(size=parameter.shape)

        def shifted(by, number=number, direction=direction):
            moved = in_float64(parameters)
            moved[number] += by * direction
            return oracle.damped_ema(x.astype("float64"), *moved).sum()

        def total(t, number=number):
            given = [*parameters[:number], t, *parameters[number + 1 :]]
            return keras.ops.sum(ops.damped_ema(x, *given, truncation=None, implementation=form))

        gradient = to_numpy(value_and_gradient(total, parameter, np.float32(1))[1])
        wanted = (shifted(1e-5) - shifted(-1e-5)) / 2e-5
        np.testing.assert_allclose((gradient * direction).sum(), wanted, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_low_precision_averages_in_float32(dtype):
    x, *parameters = make(193)
    low = keras.ops.cast(x, dtype)
    outputs = ops.damped_ema(low, *parameters)
    assert keras.backend.standardize_dtype(outputs.dtype) == dtype
    wanted = oracle.damped_ema(to_numpy(low).astype("float64"), *in_float64(parameters))
    assert_close(to_numpy(outputs), wanted, dtype=dtype)


@pytest.mark.parametrize("form", FORMS)
def test_float64_is_preserved(form):
    x, *parameters = in_float64(make(193, directions=2))
    if keras.config.backend() == "jax":
        pytest.skip("JAX has no float64 unless a flag is set")
    tensor = keras.ops.convert_to_tensor(x, "float64")
    outputs = ops.damped_ema(tensor, *parameters, truncation=130, implementation=form)
    assert keras.backend.standardize_dtype(outputs.dtype) == "float64"
    wanted = oracle.damped_ema(x, *parameters, truncation=130)
    assert_close(to_numpy(outputs), wanted, dtype="float64", kind="ema")


def test_padding_values_are_ignored():
    x, *parameters = make(70)
    mask = np.arange(70) < 66
    x[:, 66:] = np.nan
    outputs = to_numpy(ops.damped_ema(x, *parameters, mask=np.tile(mask, (2, 1))))
    wanted = oracle.damped_ema(x[:, :66], *in_float64(parameters))
    assert_close(outputs[:, :66], wanted, kind="ema")


def test_decays_of_zero_and_almost_one():
    x, *parameters = make(130)
    parameters[0][:2] = [[40], [-25]]
    parameters[1][:] = 40
    parameters[2][:] = 1e3
    outputs = to_numpy(ops.damped_ema(x, *parameters))
    assert_close(outputs, oracle.damped_ema(x, *in_float64(parameters)), kind="ema")


def test_stream_matches_recurrence():
    x, *parameters = make(20)
    state = np.zeros((2, 3, 4), "float32")
    parts = []
    for start, end in ((0, 1), (1, 2), (2, 9), (9, 20)):
        outputs, state = damped_ema_stream(x[:, start:end], state, None, *parameters)
        parts.append(to_numpy(outputs))
    wanted = oracle.damped_ema(x, *in_float64(parameters))
    assert_close(np.concatenate(parts, axis=1), wanted, kind="ema")


# torch.compile uses deprecated PyTorch APIs.
@pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")
@pytest.mark.filterwarnings("ignore:Dynamo detected a call")  # cached functions in Keras
@pytest.mark.parametrize("truncation", [None, 100])
def test_compiled(truncation):
    x, *parameters = make(193, 2)
    tensors = [keras.ops.convert_to_tensor(parameter) for parameter in parameters]
    function = compiled(lambda t: ops.damped_ema(t, *tensors, truncation=truncation), whole=True)
    wanted = oracle.damped_ema(x, *in_float64(parameters), truncation)
    assert_close(to_numpy(function(keras.ops.convert_to_tensor(x))), wanted, kind="ema")


@pytest.mark.parametrize("form", FORMS[:2])
@pytest.mark.parametrize("truncation", [None, 100])
def test_symbolic_calls_of_any_length(truncation, form):
    _, *parameters = make(1, 2)
    inputs = keras.Input((None, 3))
    outputs = ops.damped_ema(inputs, *parameters, truncation=truncation, implementation=form)
    assert outputs.shape == (None, None, 3)
    model = keras.Model(inputs, outputs)
    for tokens in (3, 193, 130):
        x = make(tokens)[0]
        wanted = oracle.damped_ema(x, *in_float64(parameters), truncation)
        assert_close(model.predict(x, verbose=0), wanted, kind="ema")


def test_explain_lists_all_implementations():
    arrays = make(8)
    explanation = ops.explain("damped_ema", *arrays, mask=np.ones((2, 8), bool))
    assert explanation.chosen == (dispatch.FORCED or "chunked")
    assert tuple(explanation.objections) == FORMS


X, *PARAMETERS = make(8)


@pytest.mark.parametrize(
    ("changes", "options", "message"),
    [
        ({}, dict(truncation=0), "`truncation` must be a positive integer.*truncation=0"),
        ({0: X.astype("int32")}, {}, "`x` must be floating.*int32"),
        ({0: X[0]}, {}, r"`x` must have the shape.*\(8, 3\)"),
        ({1: PARAMETERS[0][:2]}, {}, r"`delta`, .*shapes=\[\(2, 4\)"),
        ({3: PARAMETERS[2][:, :1]}, {}, r"`beta` .*shapes=.*\(3, 1\)"),
        ({5: np.zeros(6, "float32")}, {}, r"`omega` \(channels,\).*\(6,\)\]"),
    ],
)
def test_wrong_argument_raises(changes, options, message):
    arrays = [changes.get(number, array) for number, array in enumerate((X, *PARAMETERS))]
    with pytest.raises(ValueError, match=message):
        ops.damped_ema(*arrays, **options)
