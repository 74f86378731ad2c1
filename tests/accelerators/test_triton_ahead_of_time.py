"""Test that the Triton kernels compile for absent GPUs within limits. No kernel runs."""

import importlib.util
import json
import os
import subprocess
import sys

import keras
import pytest

from tests.harness import ROOT

pytestmark = [
    pytest.mark.ahead_of_time,
    pytest.mark.skipif(keras.config.backend() != "torch", reason="PyTorch runs Triton's kernels"),
    pytest.mark.skipif(not importlib.util.find_spec("triton"), reason="Triton is not installed"),
]

# Most bytes of stack per thread. Sorts hold more values than registers.
STACK = {
    "shift_kernel": 0,
    "order_pairs_kernel": 16,  # 4,096 tokens on sm_80, with Triton 3.6
    "undo_pairs_kernel": 0,
    "put_back_kernel": 640,
    "sort_groups_kernel": 1280,
}
SHARED = 99 * 1024  # bytes per program on GPUs of compute capability 8.6 and 8.9
REGISTERS = 128  # per thread, of 255; 128 allow 16 warps at once
MASKED = ", masked"
COST = 1.3  # most instructions of a masked call, relative to the same call without a mask
NEWEST, OLDER = "the newest Triton", "Triton 3.6"


@pytest.mark.parametrize("version", [NEWEST, OLDER])
def test_kernels_compile_for_gpus(version, tmp_path):
    environment = {**os.environ, "TRITON_CACHE_DIR": str(tmp_path)}
    environment.pop("TRITON_INTERPRET", None)
    if version == OLDER:
        older = os.environ.get("KERAS_PERMIX_OLDER_TRITON")
        if not older:
            pytest.skip("KERAS_PERMIX_OLDER_TRITON is not set to a folder with Triton 3.6")
        environment["PYTHONPATH"] = older
    command = [sys.executable, "-m", "tests.accelerators.triton_ahead"]
    done = subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-4000:]
    reports = [json.loads(line) for line in done.stdout.splitlines()]
    assert {report["kernel"] for report in reports} == set(STACK)
    assert {report["capability"] for report in reports} == {80, 90}
    assert (version == OLDER) == all(report["triton"] == "3.6.0" for report in reports)
    assert [report for report in reports if report["STACK"] > STACK[report["kernel"]]] == []
    assert [report for report in reports if report["LOCAL"] or report["REG"] > REGISTERS] == []
    assert max(report["shared"] for report in reports) <= SHARED
    calls = {
        (report["call"], report["kernel"], report["dtype"], report["capability"]): report
        for report in reports
    }
    masked = [call for call in calls if call[0].endswith(MASKED)]
    assert {kernel for _, kernel, *_ in masked} == set(STACK)
    for name, *rest in masked:
        plain = name.removesuffix(MASKED)
        cost = calls[name, *rest]["per_value"] / calls[plain, *rest]["per_value"]
        assert cost <= COST, (name, rest)
    # Kernels must not flush subnormal numbers to zero.
    assert [report for report in reports if report["flushes"]] == []
