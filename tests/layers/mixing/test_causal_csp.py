"""Test CausalCSP: values against NumPy, masks, causality and errors."""

import numpy as np
import pytest

from keras_permix.layers import CausalCSP
from tests.harness import assert_close, functional, to_numpy

X = np.random.default_rng(0).normal(size=(3, 13, 8)).astype("float32")
MASK = np.random.default_rng(1).random((3, 13)) < 0.7
BARE = dict(use_value_projection=False, use_output_projection=False)
LAYERS = {
    "pairs": dict(delays=6),
    "delays only": dict(group_size=1, delays=9),
    "longer than the sequence": dict(delays=30),
    "groups of 4": dict(group_size=4, delays=[3, 4, 5, 3, 9, 14, 3, 7]),
    "one group": dict(group_size=32, delays=40),
}


def expected(x, delays, group_size):
    """Compute the formula of the docstring, one channel of one sequence at a time."""
    out = np.empty_like(x)
    tokens = len(x)
    for channel, delay in enumerate(delays):
        # An incomplete last group also contains values delayed beyond the end of the sequence.
        longer = np.zeros(tokens + group_size + delay, x.dtype)
        longer[delay : delay + tokens] = x[:, channel]
        for start in range(0, tokens, group_size):
            group = np.sort(longer[start : start + group_size])
            out[start : start + group_size, channel] = group[: tokens - start]
    return out


@pytest.mark.parametrize("name", LAYERS)
def test_layer_matches_numpy(name):
    layer = CausalCSP(**LAYERS[name], **BARE)
    delays = layer.steps(8)
    assert min(delays) >= layer.group_size - 1
    for length in (13, 5, 1):
        result = to_numpy(layer(X[:, :length]))
        wanted = [expected(x[:length], delays, layer.group_size) for x in X]
        np.testing.assert_array_equal(result, np.stack(wanted))


@pytest.mark.parametrize("name", LAYERS)
def test_masked_tokens_are_skipped(name):
    layer = CausalCSP(**LAYERS[name], **BARE)
    result = to_numpy(layer(X, mask=MASK.astype("uint8")))
    for out, x, real in zip(result, X, MASK, strict=True):
        wanted = expected(x[real], layer.steps(8), layer.group_size)
        np.testing.assert_array_equal(out[real], wanted)
        assert not out[~real].any()


@pytest.mark.parametrize("name", LAYERS)
def test_outputs_do_not_depend_on_later_tokens(name):
    layer = CausalCSP(**LAYERS[name])
    before = to_numpy(layer(X))
    for token in range(1, 13):
        changed = X.copy()
        changed[:, token:] = np.random.default_rng(token).normal(size=X[:, token:].shape) * 9
        assert_close(to_numpy(layer(changed))[:, :token], before[:, :token])


def test_layer_supports_any_length():
    layer = CausalCSP(delays=6, **BARE)
    model = functional(layer, (None, 8))
    for length in (13, 6, 9):
        wanted = [expected(x[:length], layer.steps(8), 2) for x in X]
        result = model.predict(X[:, :length], verbose=0)
        np.testing.assert_array_equal(result, np.stack(wanted))


def test_integer_delay_is_the_maximum():
    assert CausalCSP(2, 8).steps(8) == (1, 2, 3, 4, 5, 6, 7, 8)
    assert CausalCSP(1, 0).steps(3) == (0, 0, 0)
    assert CausalCSP(4, 3).steps(2) == (3, 3)


@pytest.mark.parametrize(
    "arguments, message",
    [
        (dict(group_size=None), "`group_size` must be a positive integer.*group_size=None"),
        (dict(group_size=4, delays=2), "`delays` must be an integer of at least 3.*delays=2"),
        (dict(delays=[1, 0]), "`delays` must be a positive integer.*delays=0"),
        (dict(delays="linear"), "`delays` must be a positive integer.*delays='linear'"),
    ],
)
def test_invalid_argument_raises(arguments, message):
    with pytest.raises(ValueError, match=message):
        CausalCSP(**arguments)


def test_wrong_number_of_delays_raises():
    with pytest.raises(ValueError, match="`delays` must have one step per channel.*=2, "):
        CausalCSP(delays=[1, 2]).build((None, 13, 8))
