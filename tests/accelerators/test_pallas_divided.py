"""Pallas's kernels on several devices, each of which serves its part of the batch."""

import importlib.util
import json
import os
import subprocess
import sys

import keras
import pytest

from tests.harness import ROOT

pytestmark = [
    pytest.mark.interpreted,
    pytest.mark.skipif(keras.config.backend() != "jax", reason="JAX runs Pallas's kernels"),
    pytest.mark.skipif(
        not all(map(importlib.util.find_spec, ("torch", "triton"))),
        reason="PyTorch and Triton are not installed",
    ),
]

UNFUSED = "--xla_disable_hlo_passes=fusion"  # of an interpreted network much would be done twice
NOBODY = "it needs a single device, or a `keras.distribution` that divides the batch"
OBJECTIONS = {
    "samples divided by nobody": NOBODY,
    "samples divided": None,
    "channels divided by nobody": NOBODY,
    "channels divided": "it needs tokens and channels that are not divided between devices",
    "traced": None,
    "traced, 12 samples": "it needs a batch that the 8 parts of `keras.distribution` divide",
    "on one device": None,
}


def test_eight_devices_train_as_one_does():
    eight = {
        "JAX_DISABLE_MOST_OPTIMIZATIONS": "1",
        "JAX_PLATFORMS": "cpu",
        "KERAS_BACKEND": "jax",
        "TRITON_INTERPRET": "1",
        "XLA_FLAGS": f"--xla_force_host_platform_device_count=8 {UNFUSED}",
    }
    done = subprocess.run(
        [sys.executable, "-m", "tests.accelerators.pallas_on_eight"],
        cwd=ROOT,
        env={**os.environ, **eight},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    objections, *reports = (json.loads(line) for line in done.stdout.splitlines())
    assert objections == OBJECTIONS
    kernels = ("sort", "sort_pairs", "sort_with_positions", "unsort", "unsort_pairs")
    # ModelParallel divided a batch into 4 parts, for pairs, and DataParallel into 8.
    served = sorted([["sort_pairs", 4], ["unsort_pairs", 4], *([kernel, 8] for kernel in kernels)])
    served = {"gpu": [["triton", 4]], "tpu": served}
    expected = [dict(platform=p, devices=8, differ=0, served=s) for p, s in served.items()]
    assert reports == expected
