"""Test that JAX programs with Triton kernels compile for absent GPUs. No program runs."""

import importlib.util
import json
import subprocess
import sys

import keras
import pytest

from tests.accelerators.test_triton_ahead_of_time import REGISTERS, STACK
from tests.harness import ROOT

pytestmark = [
    pytest.mark.ahead_of_time,
    pytest.mark.skipif(keras.config.backend() != "jax", reason="JAX calls Triton's kernels"),
    pytest.mark.skipif(
        not all(map(importlib.util.find_spec, ("jax_cuda13_plugin", "jax_triton"))),
        reason="JAX's CUDA plugin and jax-triton are not installed",
    ),
]

PAIRS = ["order_pairs_kernel", "undo_pairs_kernel"]
SORT = ["sort_groups_kernel", "put_back_kernel"]
KERNELS = {
    "shift": ["shift_kernel"] * 2,
    "pairs": PAIRS,
    "pairs in bfloat16": PAIRS,
    "pairs, masked": PAIRS,
    "aligned": ["shift_kernel", "sort_groups_kernel", *SORT, "shift_kernel"],
    "descending, masked": SORT,
}


def test_programs_call_kernels_within_limits():
    command = [sys.executable, "-m", "tests.accelerators.jax_triton_ahead"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-4000:]
    reports = [json.loads(line) for line in done.stdout.splitlines()]
    found = {(report["capability"], report["case"]): report for report in reports}
    assert set(found) == {(number, case) for number in ("8.0", "9.0") for case in KERNELS}
    for (_, case), report in found.items():
        assert report["kernels"] == KERNELS[case]
        assert report["compiled"] == len(KERNELS[case])
    taken = [usage for report in reports for usage in report["usage"]]
    assert {usage["kernel"] for usage in taken} == set(STACK)
    assert [usage for usage in taken if usage["STACK"] > STACK[usage["kernel"]]] == []
    assert [usage for usage in taken if usage["REG"] > REGISTERS] == []
