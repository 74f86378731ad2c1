"""Check that files saved on one backend load on another."""

import importlib.util
import pickle
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pytest

from tests.__main__ import fast_compilation
from tests.backends import BACKEND
from tests.harness.layers import functional
from tests.harness.processes import environment
from tests.harness.values import ROOT, assert_close, to_numpy

BACKENDS = ("jax", "tensorflow", "torch")


def check_other_backend(layers):
    """Check that layers saved on this backend give the same outputs on another one.

    Args:
        layers: Maps names to pairs of a function that returns the layer, and the input shape.
    """
    inputs = {
        name: np.random.default_rng(0).normal(size=shape).astype("float32")
        for name, (_, shape) in layers.items()
    }
    check_models_elsewhere(
        {
            name: (functional(make(), shape[1:]), inputs[name])
            for name, (make, shape) in layers.items()
        }
    )


def check_models_elsewhere(models, kind="layer"):
    """Check that models saved on this backend give the same outputs on another one.

    Args:
        models: Maps names to pairs of a model and its inputs, an array or a dict of arrays.
        kind: Kind of tolerance.
    """
    backend = other_backend()
    outputs = {}
    with tempfile.TemporaryDirectory() as folder:
        for name, (model, inputs) in models.items():
            Path(folder, f"{name}.pickle").write_bytes(pickle.dumps(inputs))
            model.save(Path(folder, f"{name}.keras"))
            outputs[name] = to_numpy(model(inputs))
        command = [sys.executable, "-m", "tests.reload", folder]
        variables = environment(backend, **fast_compilation(backend))
        subprocess.run(command, env=variables, cwd=ROOT, check=True)
        for name, output in outputs.items():
            assert_close(np.load(Path(folder, f"{name}.npy")), output, kind=kind)


def other_backend():
    """Return another installed backend. Skips the test if there is no other."""
    here = BACKENDS.index(BACKEND)
    for name in (*BACKENDS[here + 1 :], *BACKENDS[:here]):
        if importlib.util.find_spec(name):
            return name
    pytest.skip("no other backend is installed")
