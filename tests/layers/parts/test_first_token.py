"""Test FirstToken: outputs, files and masks."""

import keras
import numpy as np

from keras_permix.layers.parts.wrappers import FirstToken
from tests.harness import to_numpy

TOKENS = np.random.default_rng(0).normal(size=(2, 5, 3)).astype("float32")


def test_first_token_of_any_length(tmp_path):
    tokens = keras.Input((None, 3))
    model = keras.Model(tokens, FirstToken()(keras.layers.Masking()(tokens)))
    assert model.output_shape == (None, 3)
    model.save(tmp_path / "first.keras")
    loaded = keras.models.load_model(tmp_path / "first.keras")
    for length in (1, 5):
        x = TOKENS[:, :length]
        np.testing.assert_array_equal(to_numpy(loaded(x)), x[:, 0])


def test_output_has_no_mask():
    tokens = FirstToken()(keras.layers.Masking()(TOKENS))
    assert getattr(tokens, "_keras_mask", None) is None
