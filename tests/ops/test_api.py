"""Test public names, errors, symbolic calls and chosen implementations."""

import keras
import numpy as np
import pytest

from keras_permix import ops
from tests.harness import exported, to_numpy
from tests.oracle import permutations as oracle

X = np.zeros((2, 8, 4), "float32")


def test_public_names():
    assert exported(ops) == [
        "ShiftSchedule",
        "butterfly_permute",
        "butterfly_stages",
        "butterfly_unpermute",
        "channel_shift",
        "csp",
        "damped_ema",
        "dense",
        "explain",
        "exporting",
        "group_sort",
        "interleave_order",
        "max_exchange",
        "patchify",
        "shift_steps",
        "simple_attention",
        "sinkhorn",
        "sinkhorn_csp",
        "slice_sort",
        "unpatchify",
    ]


ERRORS = {
    "x": (ValueError, lambda: ops.group_sort(X[0]), r"`x` must have the shape.*\(8, 4\)"),
    "group_size": (ValueError, lambda: ops.group_sort(X, 3), "group_size=3"),
    "group_size 0": (ValueError, lambda: ops.csp(X, (0,) * 4, 0), "group_size=0"),
    "group_size large": (ValueError, lambda: ops.group_sort(X, 9), "group_size=9"),
    "align": (ValueError, lambda: ops.group_sort(X, align="both"), "`align`.*'both'"),
    "steps count": (ValueError, lambda: ops.channel_shift(X, (1, 2)), "=2, channels=4"),
    "mask": (ValueError, lambda: ops.slice_sort(X, mask=X[0] > 0), r"`mask`.*\(8, 4\)"),
    "descending": (ValueError, lambda: ops.slice_sort(X, (True, False)), "`descending`"),
    "schedule": (ValueError, lambda: ops.shift_steps("curved", 8, 4), "`schedule`.*'curved'"),
    "explicit": (ValueError, lambda: ops.shift_steps([1, 2], 8, 4), "=2, channels=4"),
    "tokens": (ValueError, lambda: ops.shift_steps("linear", 0, 4), "tokens=0"),
    "grid": (ValueError, lambda: ops.shift_steps("grid", 8, 4), "square.*Received: tokens=8"),
    "grid with a mask": (
        ValueError,
        lambda: ops.channel_shift(X, ops.ShiftSchedule("grid", 4), mask=X[:, :, 0] > 0),
        "'grid' requires.*no mask",
    ),
    "layer": (
        ValueError,
        lambda: ops.shift_steps("power", 8, 4, layer_index=2, num_layers=2),
        "layer_index=2",
    ),
    "layer kind": (
        ValueError,
        lambda: ops.shift_steps("unit", 8, 4, layer_index=0.5),
        "`layer_index`.*=0.5",
    ),
    "channels": (
        ValueError,
        lambda: ops.interleave_order("interleave", 4.0, layer_index=0, num_layers=1),
        "`channels` must be a positive integer.*channels=4.0",
    ),
    "kind": (
        ValueError,
        lambda: ops.interleave_order("sine", 4, layer_index=0, num_layers=1),
        "'sine'",
    ),
    "implementation": (
        ValueError,
        lambda: ops.group_sort(X, 2, implementation="magic"),
        "`implementation` must be one of.*'magic'",
    ),
    "explain": (ValueError, lambda: ops.explain("shift_steps", X), "`op` must be one of"),
}


@pytest.mark.parametrize("side", [1, 4, 7, 8, 14])
def test_grid_steps_cover_both_axes_evenly(side):
    moves = np.stack(np.divmod(ops.shift_steps("grid", side**2, 3 * side**2), side))
    for start in range(0, moves.shape[1], side):
        block = np.sort(moves[:, start : start + side])
        np.testing.assert_array_equal(block, [np.arange(side)] * 2)
    assert len(set(zip(*moves[:, : side**2], strict=True))) == side**2
    assert moves[:, 0].tolist() == [0, 0]


@pytest.mark.parametrize("case", ERRORS)
def test_errors(case):
    kind, call, message = ERRORS[case]
    with pytest.raises(kind, match=message):
        call()


@pytest.mark.parametrize("name", ["csp", "slice_sort", "channel_shift", "group_sort"])
def test_native_implementation_is_chosen(name):
    arguments = {"csp": ((0,) * 4, 2), "channel_shift": ((0,) * 4,)}.get(name, ())
    explanation = ops.explain(name, X, *arguments)
    assert explanation.chosen != "reference"
    assert f"{explanation.chosen}: selected" in str(explanation)


def test_symbolic_calls():
    inputs = keras.Input((8, 4))
    outputs = ops.csp(inputs, (0, 1, 2, 3), 2)
    assert outputs.shape == (None, 8, 4)
    x = np.random.default_rng(0).normal(size=X.shape).astype("float32")
    expected = oracle.values(x, oracle.csp(x, (0, 1, 2, 3), 2))
    np.testing.assert_array_equal(keras.Model(inputs, outputs).predict(x, verbose=0), expected)


def test_unknown_length():
    inputs = keras.Input((None, 4))
    model = keras.Model(inputs, ops.csp(inputs, (0, 1, 2, 3), 2))
    for tokens in (4, 8):
        x = np.random.default_rng(0).normal(size=(1, tokens, 4)).astype("float32")
        expected = oracle.values(x, oracle.csp(x, (0, 1, 2, 3), 2))
        np.testing.assert_array_equal(to_numpy(model(x)), expected)
