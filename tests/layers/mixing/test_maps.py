"""Test mixers on maps (batch, rows, columns, channels)."""

import keras
import numpy as np
import pytest

from keras_permix.layers import (
    CSP,
    MixerBlock,
    SimpleAttention,
    SinkhornCSP,
    SliceSort,
    SoftmaxAttention,
)
from keras_permix.layers.mixers import MIXERS as ALL_MIXERS
from keras_permix.layers.mixers import arguments_of, make_mixer
from tests.harness import assert_close, to_numpy

MIXERS = {
    "csp": lambda: CSP(shift="unit", inner_dim=6),
    "slice_sort": lambda: SliceSort(inner_dim=6),
    "sinkhorn_csp": lambda: SinkhornCSP(iterations=3),
    "simple_attention": lambda: SimpleAttention(2),
    "softmax_attention": lambda: SoftmaxAttention(2),
    "block": lambda: MixerBlock(CSP(), mlp_dim=8),
}
MAPS = np.random.default_rng(0).normal(size=(2, 4, 6, 4)).astype("float32")
MASK = np.random.default_rng(1).random((2, 4, 6)) < 0.7


def few_heads(name):
    return {"name": name, **({"num_heads": 2} if "num_heads" in arguments_of(name) else {})}


@pytest.mark.parametrize("name", sorted({*MIXERS, *ALL_MIXERS}))
def test_map_matches_flattened_tokens(name):
    layer = MIXERS[name]() if name in MIXERS else make_mixer(few_heads(name))
    for mask in (None, MASK):
        flat = None if mask is None else mask.reshape(2, 24)
        expected = to_numpy(layer(MAPS.reshape(2, 24, 4), mask=flat)).reshape(MAPS.shape)
        assert_close(to_numpy(layer(MAPS, mask=mask)), expected)
    assert layer.compute_output_shape(MAPS.shape) == MAPS.shape


@pytest.mark.once
@pytest.mark.parametrize("name", MIXERS)
def test_model_of_maps_saves_and_loads(name, tmp_path):
    maps = keras.Input((None, 6, 4)) if name != "csp" else keras.Input((4, 6, 4))
    model = keras.Model(maps, keras.layers.AveragePooling2D(2)(MIXERS[name]()(maps)))
    expected = model.predict(MAPS, verbose=0)
    assert expected.shape == (2, 2, 3, 4)
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(loaded.predict(MAPS, verbose=0), expected)


def test_wrong_number_of_axes_raises():
    for layer in (CSP(), SoftmaxAttention(2), MixerBlock(CSP(), 8)):
        with pytest.raises(ValueError, match=r"rows, columns.*Received: input_shape=\(2, 4\)"):
            layer.build((2, 4))
