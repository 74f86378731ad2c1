"""How much memory the Triton kernels read: little more than the values fill."""

import csv
import importlib.util
import os
import subprocess
import sys

import keras
import pytest

from keras_permix.bench.sectors import CASES
from tests.harness import ROOT

APART = "power_code, 16384 × 128, the last of 4 layers"  # no two channels of a sector are near
MOST = 1.3  # times the sectors that the values fill


@pytest.mark.interpreted
@pytest.mark.skipif(keras.config.backend() != "torch", reason="PyTorch runs Triton's kernels")
@pytest.mark.skipif(not importlib.util.find_spec("triton"), reason="Triton is not installed")
def test_kernels_read_little_more_than_the_values(tmp_path):
    cases = [case for case in CASES if case != APART]
    out, here = tmp_path / "sectors.csv", {**os.environ, "TRITON_INTERPRET": "1"}
    command = [sys.executable, "-m", "keras_permix.bench.sectors", "--out", out, "--cases", *cases]
    subprocess.run(command, cwd=ROOT, env=here, check=True, capture_output=True)
    with open(out, newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert {row["case"] for row in rows} == set(cases)
    for row in rows:
        sectors, loaded, stored = (int(row[key]) for key in ("sectors", "loaded", "stored"))
        assert sectors <= stored < 1.05 * sectors, row
        bits = 0.05 if (row["kernel"], row["way"]) == ("pairs", "back") else 0  # of swapped pairs
        assert sectors <= loaded < (MOST + bits) * sectors, row
