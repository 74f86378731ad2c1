"""Test ops against golden values from the authors' code."""

import keras
import numpy as np
import pytest

from keras_permix import ops
from tests.harness import load_golden, to_numpy

CSP = load_golden("csp_ops")
SLICE = load_golden("sliceformer_ops")
SCHEDULES = load_golden("csp_shift_schedules")

# golden array -> (array of steps or None, group size, align)
CSP_CASES = {
    "shift_only": ("shifts", 1, "independent"),
    "head_shift_sort": ("head_shifts", 2, "independent"),
    "head_shift_sort_G4": ("head_G4_shifts", 4, "independent"),
    "unit_shift_sort": ("unit_shifts", 2, "independent"),
    "exp_shift_sort": ("exp_shifts", 2, "independent"),
    "complete_sort": (None, None, "independent"),
    "group_only_G1": (None, 1, "independent"),
    "group_only_G2": (None, 2, "independent"),
    "group_only_G4": (None, 4, "independent"),
    "reference_G2": ("shifts", 2, "reference"),
    "reference_G4": ("shifts", 4, "reference"),
    "reference_complete": (None, None, "reference"),
}
SCHEDULE_NAMES = {
    "linear_zero": "linear",
    "linear_paper": "linear_paper",
    "linear_code": "linear_code",
    "linear_head": "linear_head",
    "unit": "unit",
    "exp_code": "power_code",
    "power_round": "power",
}


@pytest.mark.parametrize("name", CSP_CASES)
def test_csp(name):
    steps, group_size, align = CSP_CASES[name]
    v = CSP["v"].astype("float32")
    steps = np.zeros(v.shape[2], int) if steps is None else CSP[steps]
    result = to_numpy(ops.csp(v, steps, group_size, align=align))
    np.testing.assert_array_equal(result, CSP[name].astype("float32"))


def test_shift_matches_matrix_of_paper():
    x = np.arange(7, dtype="float32").reshape(1, 7, 1)
    shifted = to_numpy(ops.channel_shift(x, (2,)))[0, :, 0]
    np.testing.assert_array_equal(shifted, CSP["S_7_2"] @ x[0, :, 0])


@pytest.mark.parametrize("name", list(SCHEDULES))
def test_schedules(name):
    schedule, sizes = name.split("_N")
    tokens, channels, layers = (int(part.lstrip("CL")) for part in f"{sizes}_L1".split("_")[:3])
    table = SCHEDULES[name].reshape(layers, channels)
    for layer in range(layers):
        steps = ops.shift_steps(
            SCHEDULE_NAMES[schedule], tokens, channels, layer_index=layer, num_layers=layers
        )
        np.testing.assert_array_equal(steps, table[layer])


@pytest.mark.parametrize("order", ["ascend", "descend", "max_exchange"])
def test_slice(order):
    v = SLICE["v"].astype("float32")
    result = ops.max_exchange(v) if order == "max_exchange" else ops.slice_sort(v, order[0] == "d")
    np.testing.assert_array_equal(to_numpy(result), SLICE[order].astype("float32"))


@pytest.mark.parametrize(
    ("kind", "name", "head_dim"), [("interleave", "paper", None), ("interleave_haar", "haar", 8)]
)
def test_interleave(kind, name, head_dim):
    v = keras.ops.convert_to_tensor(SLICE["v"].astype("float32"))
    layers, channels = SLICE[f"{name}_ascending"].shape
    for layer in range(layers):
        down = ops.interleave_order(
            kind, channels, layer_index=layer, num_layers=layers, head_dim=head_dim
        )
        np.testing.assert_array_equal(~down, SLICE[f"{name}_ascending"][layer])
        expected = SLICE[f"{name}_interleave"][layer].astype("float32")
        np.testing.assert_array_equal(to_numpy(ops.slice_sort(v, down)), expected)
