"""Test permutation maps against golden values and layer outputs."""

from pathlib import Path

import keras
import numpy as np
import pytest
from matplotlib.figure import Figure

from keras_permix.analysis import permutation_maps, plot_permutation_maps
from keras_permix.layers import CSP, CausalCSP, SinkhornCSP, SliceSort

GOLDEN = np.load(Path(__file__).parents[1] / "golden" / "analysis.npz")


def identity_csp(**arguments):
    """Return the CSP layer of the golden file, with an identity as value projection."""
    layer = CSP(int(GOLDEN["G"]), GOLDEN["shifts"], use_output_projection=False, **arguments)
    layer.build((None, *GOLDEN["X"].shape))
    if layer.use_value_projection:
        layer.value_dense.kernel.assign(np.eye(GOLDEN["X"].shape[1]))
    return layer


@pytest.mark.parametrize("projected", [True, False])
def test_maps_match_golden(projected):
    layer = identity_csp(use_value_projection=projected)
    tokens = GOLDEN["X"][None].astype("float32")
    np.testing.assert_array_equal(permutation_maps(layer, tokens)[0], GOLDEN["attention_maps"])
    permuted = keras.ops.convert_to_numpy(layer(tokens))[0]
    np.testing.assert_array_equal(permuted, GOLDEN["csp_out"].astype("float32"))


@pytest.mark.parametrize(
    ("channels", "chosen"), [([3, 1], [3, 1]), (1, [1]), (np.int64(2), [2]), (slice(2), [0, 1])]
)
def test_maps_of_chosen_channels(channels, chosen):
    tokens = GOLDEN["X"][None].astype("float32")
    maps = permutation_maps(identity_csp(), tokens, channels=channels)
    np.testing.assert_array_equal(maps[0], GOLDEN["attention_maps"][chosen])


@pytest.mark.parametrize("order", ["ascend", "interleave", "max_exchange"])
def test_maps_reproduce_layer_outputs(order):
    tokens = np.random.default_rng(0).normal(size=(2, 6, 8)).astype("float32")
    layer = SliceSort(order, num_layers=2, use_output_projection=False)
    layer.build(tokens.shape)
    values = keras.ops.convert_to_numpy(layer.value_dense(tokens))
    maps = permutation_maps(layer, tokens)
    mixed = np.einsum("bcnm,bmc->bnc", maps, values)
    np.testing.assert_array_equal(mixed, keras.ops.convert_to_numpy(layer(tokens)))


@pytest.mark.parametrize("kind", [CSP, CausalCSP, SinkhornCSP, keras.layers.Identity])
def test_unbuilt_or_unsupported_layer_raises(kind):
    layer, tokens = kind(), np.zeros((1, 2, 3), "float32")
    if kind is not CSP:
        layer.build(tokens.shape)
    with pytest.raises(TypeError, match=f"`layer` must be .*Received: layer=<{kind.__name__}"):
        permutation_maps(layer, tokens)


def test_plot_has_one_dot_per_token():
    axes = Figure().subplots(1, 4)
    plot_permutation_maps(axes, GOLDEN["attention_maps"])
    for ax, matrix in zip(axes, GOLDEN["attention_maps"], strict=True):
        columns, rows = ax.collections[0].get_offsets().T
        np.testing.assert_array_equal(matrix[rows.astype(int), columns.astype(int)], 1)
        assert len(rows) == len(matrix)
