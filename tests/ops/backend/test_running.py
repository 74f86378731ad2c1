"""Test functions that depend on the current backend."""

import random
import sys

import keras
import numpy as np
import pytest

from keras_permix.ops.backend import running


def test_seed_again_resets_random_numbers():
    drawn = []
    for _ in range(2):
        running.seed_again(3)
        drawn.append((random.random(), np.random.random()))
    assert drawn[0] == drawn[1]


@pytest.mark.skipif(keras.config.backend() != "tensorflow", reason="requires TensorFlow")
def test_seed_again_keeps_programs(monkeypatch):
    """TensorFlow's `set_seed` drops compiled programs, so every epoch would compile again."""

    def forget(seed):
        raise AssertionError("set_seed drops compiled programs")

    monkeypatch.setattr(sys.modules["tensorflow"].random, "set_seed", forget)
    running.seed_again(3)
