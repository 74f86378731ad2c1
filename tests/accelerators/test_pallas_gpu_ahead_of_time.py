"""Pallas's kernels for GPU as JAX's CUDA plugin compiles them, for GPUs that are not there."""

import importlib.util
import json
import subprocess
import sys

import keras
import pytest

from tests.harness import ROOT

pytestmark = [
    pytest.mark.ahead_of_time,
    pytest.mark.skipif(keras.config.backend() != "jax", reason="JAX runs Pallas's kernels"),
    pytest.mark.skipif(
        not importlib.util.find_spec("jax_cuda13_plugin"), reason="no CUDA plugin is installed"
    ),
]

# Registers a thread, of 255. With 128, and 8 warps, there is room for two programs at once.
REGISTERS = {"shift": 64, "sort_pairs": 64, "unsort_pairs": 64, "unsort": 80}
REGISTERS |= {"sort": 128, "sort_with_places": 128}
# Bytes of stack at most, where there are any: room for one number of 64 bits.
STACK = {
    (case, "float32", "sort_with_places"): 8 for case in ("groups of 2048", "no power of two, 4095")
}
# case -> the kernels of the value and of its gradient
SORT = {"sort"}, {"sort_with_places", "unsort"}
SHIFTED_SORT = {"shift", "sort"}, {"shift", "sort_with_places", "unsort"}
KERNELS = {
    "shift": ({"shift"}, {"shift"}),
    "pairs of 196": ({"sort_pairs"}, {"sort_pairs", "unsort_pairs"}),
    "pairs of 65536": ({"sort_pairs"}, {"sort_pairs", "unsort_pairs"}),
    **{f"groups of {size}": SHIFTED_SORT for size in (4, 64, 256, 1024, 2048, 4096)},
    "no power of two, 196": SORT,
    "no power of two, 4095": SORT,
    "aligned": ({"shift", "sort_with_places"}, {"shift", "sort_with_places", "unsort"}),
    "downwards": SORT,
}


def stack_of(report):
    return STACK.get(tuple(report[key] for key in ("case", "dtype", "kernel")), 0)


def test_kernels_compile_without_stack_but_for_eight_bytes():
    command = [sys.executable, "-m", "tests.accelerators.pallas_gpu_ahead"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-4000:]
    reports = [json.loads(line) for line in done.stdout.splitlines()]
    assert {report["capability"] for report in reports} == {"8.0", "9.0"}
    found = {}
    for report in reports:
        program = tuple(report[key] for key in ("case", "differentiated", "dtype", "capability"))
        found.setdefault(program, set()).add(report["kernel"])
    assert found == {
        (case, differentiated, dtype, capability): KERNELS[case][differentiated]
        for case, differentiated, dtype, capability in found
    }
    assert {case for case, *_ in found} == set(KERNELS)
    assert [report for report in reports if report["STACK"] > stack_of(report)] == []
    assert [report for report in reports if report["REG"] > REGISTERS[report["kernel"]]] == []
