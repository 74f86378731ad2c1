"""Test how many instruction bundles TPU kernels issue, against XLA and fixed limits."""

import csv
import importlib.util
import subprocess
import sys

import keras
import pytest

from tests.harness import ROOT, load_module

tool = load_module("tools/bundles.py")

# Most bundles per kernel for float32 inputs of shape (32, 256, 384).
MOST = {
    "values": 70_000, "values with positions": 150_000, "inverse": 95_000, "groups of four": 25_000,
    "groups of four with positions": 40_000, "groups of four, inverse": 30_000, "shift": 25_000,
    "shifted pairs": 32_000, "shifted pairs, inverse": 30_000,
}  # fmt: skip


@pytest.mark.ahead_of_time
@pytest.mark.skipif(keras.config.backend() != "jax", reason="JAX runs Pallas's kernels")
@pytest.mark.skipif(not importlib.util.find_spec("libtpu"), reason="libtpu is not installed")
def test_kernels_issue_fewer_bundles_than_xla(tmp_path):
    command = [sys.executable, ROOT / "tools" / "bundles.py", "--out", tmp_path / "b.csv"]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    with open(tmp_path / "b.csv", newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    found = {(row["case"], row["dtype"], row["way"]): int(row["bundles"]) for row in rows}
    assert {case for case, *_ in found} == set(tool.CASES) == set(MOST)
    for (case, dtype, way), bundles in found.items():
        if way == "tpu_pallas":
            assert 0 < bundles < found[case, dtype, "tpu_xla"], case
            assert dtype != "float32" or bundles < MOST[case], case
            assert found[case, dtype, "tpu_pallas_masked"] < 1.31 * bundles, case
    assert {row["unknown_loops"] for row in rows if row["way"] == "tpu_pallas"} == {"0"}


BUNDLES = """
= control target key start
LH: loop header
= control target key end

     0   :  { %s1 = smov 0 }
   0x1 LB: > { %s2 = sadd.s32 1, %s1 }
   0x2   :  {} /* End region 1 */
   0x3 LB: >> { %v1 = vld [vmem:[%s3] sm:$0xff] }
   0x4   : >> { %p1 = scmp.ge.s32.totalorder %s4, 5 /* loop exit test */ }
   0x5   : > { %p2 = scmp.ge.s32.totalorder %s2, 10 /* loop exit test */  ;;  %s5 = smov 1 }
   0x6 LB: > { %s6 = sadd.s32 1, %s5 }
   0x7   : > { %p3 = scmp.ge.s32.totalorder %s6, %s7 /* loop exit test */ }
   0x8   :  { %s8 = smov 0 }
"""


@pytest.mark.once
def test_bundles_in_loops_count_per_iteration():
    # Two bundles outside of loops, ten iterations of three bundles and an inner loop (five
    # iterations of two), and two bundles in a loop of unknown length.
    assert tool.count_bundles(BUNDLES) == (2 + 10 * (3 + 5 * 2) + 2, 1)
