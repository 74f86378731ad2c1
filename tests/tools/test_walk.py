"""Test how many files of the package common calls enter."""

import subprocess
import sys

import pytest

from tests.harness import ROOT, load_module
from tests.harness.processes import environment

tool = load_module("tools/walk.py")

# Limits for all backends.
FILES = {"from_preset": 18, "layer": 16, "train": 70, "predict": 45}

pytestmark = pytest.mark.once


@pytest.mark.parametrize("call", tool.CALLS)
def test_number_of_entered_files(call):
    command = [sys.executable, ROOT / "tools" / "walk.py", call]
    done = subprocess.run(command, capture_output=True, text=True, env=environment())
    assert done.returncode == 0, done.stderr
    *walk, summary = done.stdout.splitlines()
    assert walk[0].startswith("permix.py" if call in ("train", "predict") else "keras_permix/")
    assert len(walk) <= FILES[call], done.stdout
    assert summary == f"{call}: {len(walk)} files"
