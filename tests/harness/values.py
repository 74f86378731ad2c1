"""Convert, load and compare arrays."""

import importlib.util
import inspect
from pathlib import Path

import keras
import numpy as np
import pytest

from keras_permix.ops.backend import running
from tests.tolerances import TOLERANCES

ROOT = Path(__file__).resolve().parents[2]
GOLDEN = ROOT / "tests" / "golden"


def needs_cpu():
    """Skip a test of CPU implementations if Keras runs on another device."""
    platform = running.module("runtime").hardware(keras.ops.zeros(1)).platform
    if platform != "cpu":
        pytest.skip(f"requires a CPU, but Keras runs on {platform}")


def load_module(path):
    """Import a Python file of the repository, such as "tools/walk.py"."""
    spec = importlib.util.spec_from_file_location(Path(path).stem, ROOT / path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def exported(module):
    """Return the public names of a package, without its modules."""
    names = vars(module).items()
    return sorted(name for name, x in names if name[0] != "_" and not inspect.ismodule(x))


def to_numpy(x):
    """Convert a tensor to an array. NumPy has no bfloat16, which becomes float32."""
    if keras.backend.standardize_dtype(x.dtype) == "bfloat16":
        x = keras.ops.cast(x, "float32")
    return keras.ops.convert_to_numpy(x)


def load_golden(name):
    """Return the arrays of a golden file by name."""
    with np.load(GOLDEN / f"{name}.npz") as arrays:
        return dict(arrays)


def assert_same(actual, desired):
    """Assert that values are equal, including the signs of zeros."""
    np.testing.assert_array_equal(actual, desired)
    np.testing.assert_array_equal(np.signbit(actual), np.signbit(desired))


def assert_close(actual, desired, dtype="float32", kind="layer"):
    """Assert that values agree within the tolerance of their kind and dtype."""
    np.testing.assert_allclose(actual, desired, **TOLERANCES[kind][dtype])
