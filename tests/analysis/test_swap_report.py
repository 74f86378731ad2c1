"""Test swap reports against parameters and multiply-adds counted by hand."""

import keras
import numpy as np
import pytest

from keras_permix import swap_mixer
from keras_permix.analysis import swap_report

pytestmark = pytest.mark.once


def test_custom_model():
    tokens = keras.Input((8, 6))
    attended = keras.layers.MultiHeadAttention(2, 3)(tokens, tokens)
    model = keras.Model(tokens, keras.layers.ActivityRegularization()(attended))
    report = swap_report(model, swap_mixer(model, "csp"), np.ones((1, 8, 6), "float32"))
    assert report.parameters == (4 * (6 * 6 + 6), 2 * (6 * 6 + 6))
    products = 8 * 6 * 6
    assert [macs.total for macs in report.macs] == [
        4 * products + 2 * 64 * (3 + 1 + 3),
        2 * products,
    ]
    text = str(report).splitlines()
    assert text[1].split() == ["parameters", "168", "84", "-50.0", "%"]
    assert text[2].split()[:3] == ["multiply-adds", "2,048", "576"]
    assert text[3] == "multiply-adds exclude ActivityRegularization"
