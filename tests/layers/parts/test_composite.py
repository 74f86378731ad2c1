"""Test constructor arguments of composite layers."""

import numpy as np
import pytest

from keras_permix.layers import CSP
from keras_permix.layers.parts.wrappers import make_dropout

pytestmark = pytest.mark.once


def test_keras_arguments_are_accepted():
    layer = CSP(name="mine", trainable=False, dtype="float16", autocast=False)
    assert layer.name == "mine" and not layer.trainable and layer.compute_dtype == "float16"


def test_dropout_stores_a_python_float():
    # JAX would promote bfloat16 with the type of NumPy.
    assert type(make_dropout(np.float32(0.5)).rate) is float
