"""Test influence maps of layers with a known influence."""

import keras
import numpy as np
import pytest
from matplotlib.figure import Figure

from keras_permix.analysis import influence_map, plot_influence_map
from keras_permix.layers import CSP
from tests.harness import assert_close

X = np.random.default_rng(0).normal(size=(2, 6, 4)).astype("float32")


class Mix(keras.layers.Layer):
    """Multiply the tokens by a matrix."""

    def __init__(self, matrix):
        super().__init__()
        self.matrix = matrix.astype("float32")

    def call(self, inputs):
        return keras.ops.einsum("nm,bmc->bnc", self.matrix, inputs)


def test_map_of_linear_mixer_is_its_matrix():
    matrix = np.random.default_rng(1).normal(size=(6, 6))
    np.testing.assert_allclose(influence_map(Mix(matrix), X), abs(matrix), rtol=1e-2, atol=1e-2)


def test_zero_tokens_are_perturbed():
    assert_close(influence_map(keras.layers.Identity(), 0 * X), np.eye(6))


def test_no_influence_between_groups():
    layer = CSP(shift=[0, 0, 0, 0], use_output_projection=False)
    influences = influence_map(layer, X) > 0
    groups = np.arange(6) // 2
    assert not influences[groups[:, None] != groups].any()
    assert influences.any(axis=0).all()


def test_plot_shows_map():
    ax = Figure().subplots()
    plot_influence_map(ax, np.eye(3))
    np.testing.assert_array_equal(ax.images[0].get_array(), np.eye(3))


def test_low_precision_raises():
    with pytest.raises(ValueError, match="`layer` must compute in float32.*dtype='bfloat16'"):
        influence_map(keras.layers.Identity(dtype="bfloat16"), X)


def test_wrong_shape_raises():
    with pytest.raises(ValueError, match=r"`tokens` must.*\(6, 4\)"):
        influence_map(Mix(np.eye(6)), X[0])
