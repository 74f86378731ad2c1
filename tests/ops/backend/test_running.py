"""What is asked of the backend that runs, whichever it is."""

import random
import sys

import keras
import numpy as np
import pytest

from keras_permix.ops.backend import running


def test_random_numbers_get_a_seed_again():
    drawn = []
    for _ in range(2):
        running.seed_again(3)
        drawn.append((random.random(), np.random.random()))
    assert drawn[0] == drawn[1]


@pytest.mark.skipif(keras.config.backend() != "tensorflow", reason="TensorFlow alone")
def test_a_seed_forgets_no_program(monkeypatch):
    """TensorFlow's own `set_seed` does, and every epoch of a run would begin with compiling."""

    def forget(seed):
        raise AssertionError("all that is compiled would be compiled again")

    monkeypatch.setattr(sys.modules["tensorflow"].random, "set_seed", forget)
    running.seed_again(3)
