"""Test kernels of JAX on eight devices, each with one shard of the batch."""

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

UNFUSED = "--xla_disable_hlo_passes=fusion"  # it would compute much of an interpreted network twice
NO_DISTRIBUTION = "it requires a single device, or a `keras.distribution` that shards the batch"
OBJECTIONS = {
    "samples sharded, no distribution": NO_DISTRIBUTION,
    "samples sharded": None,
    "channels sharded, no distribution": NO_DISTRIBUTION,
    "channels sharded": "it requires tokens and channels that are not sharded",
    "traced": None,
    "traced, 12 samples": (
        "it requires a batch size divisible by the 8 shards of `keras.distribution`"
    ),
    "on one device": None,
}


def test_training_on_eight_devices_matches_one():
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
    # ModelParallel splits the batch of pairs into 4 shards, DataParallel splits into 8.
    served = sorted([["sort_pairs", 4], ["unsort_pairs", 4], *([kernel, 8] for kernel in kernels)])
    served = {"gpu": [["triton", 4]], "tpu": served}
    expected = [dict(platform=p, devices=8, differ=0, served=s) for p, s in served.items()]
    assert reports == expected
