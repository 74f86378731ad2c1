"""Arrays of tests: where golden ones lie, and how near others must be."""

from pathlib import Path

import keras
import numpy as np
import pytest

from keras_permix.ops.backend import running
from tests.tolerances import TOLERANCES

ROOT = Path(__file__).resolve().parents[2]
GOLDEN = ROOT / "tests" / "golden"


def needs_cpu():
    """Skip a test of what is chosen on processors, where Keras computes on something else."""
    platform = running.module("runtime").hardware(keras.ops.zeros(1)).platform
    if platform != "cpu":
        pytest.skip(f"of a processor, and this is {platform}")


def to_numpy(x):
    """A tensor as an array; bfloat16, which NumPy lacks, as float32."""
    if keras.backend.standardize_dtype(x.dtype) == "bfloat16":
        x = keras.ops.cast(x, "float32")
    return keras.ops.convert_to_numpy(x)


def load_golden(name):
    """The arrays of a golden file, by name."""
    with np.load(GOLDEN / f"{name}.npz") as arrays:
        return dict(arrays)


def assert_close(actual, desired, dtype="float32", kind="layer"):
    """Assert that values are as near as the table of tolerances asks."""
    np.testing.assert_allclose(actual, desired, **TOLERANCES[kind][dtype])
