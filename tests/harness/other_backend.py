"""Files written on one backend are read on another."""

import importlib.util
import pickle
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pytest

from tests.__main__ import FAST_COMPILATION
from tests.backends import BACKEND
from tests.harness.layers import functional
from tests.harness.processes import environment
from tests.harness.values import ROOT, assert_close, to_numpy

BACKENDS = ("jax", "tensorflow", "torch")


def check_other_backend(layers):
    """Models of one layer, saved here, give the same on another backend that is installed.

    Args:
        layers: From names to pairs: a function that makes the layer, and the shape to call it with.
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
    """The same of whole models.

    Args:
        models: From names to pairs: a model, and what to call it with, an array or a dict of some.
        kind: Which tolerance.
    """
    backend = other_backend()
    outputs = {}
    with tempfile.TemporaryDirectory() as folder:
        for name, (model, inputs) in models.items():
            Path(folder, f"{name}.pickle").write_bytes(pickle.dumps(inputs))
            model.save(Path(folder, f"{name}.keras"))
            outputs[name] = to_numpy(model(inputs))
        command = [sys.executable, "-m", "tests.reload", folder]
        # XLA aborts at flags that it does not know, and JAX's is newer than TensorFlow's.
        quick = {"tensorflow": FAST_COMPILATION, "jax": {"JAX_DISABLE_MOST_OPTIMIZATIONS": "1"}}
        variables = environment(backend, **quick.get(backend, {}))
        subprocess.run(command, env=variables, cwd=ROOT, check=True)
        for name, output in outputs.items():
            assert_close(np.load(Path(folder, f"{name}.npy")), output, kind=kind)


def other_backend():
    """Another installed backend than this process has; without one the test is skipped."""
    here = BACKENDS.index(BACKEND)
    for name in (*BACKENDS[here + 1 :], *BACKENDS[:here]):
        if importlib.util.find_spec(name):
            return name
    pytest.skip("no other backend is installed")
