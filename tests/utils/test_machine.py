"""Test `driver` and `keep_freed_memory`."""

import subprocess
import sys
from importlib.metadata import PackageNotFoundError

import pytest

from keras_permix import cli
from keras_permix.utils.machine import driver
from tests.harness import ROOT

pytestmark = pytest.mark.once

# Print the growth of resident memory, in kB, after 128 MiB in a number of blocks are freed.
SCRIPT = """
import re, sys
from pathlib import Path

sys.path.insert(0, sys.argv[1])
from machine import keep_freed_memory
import numpy as np

def resident():
    return int(re.search(r"VmRSS:\\s+(\\d+) kB", Path("/proc/self/status").read_text())[1])

if sys.argv[2] == "kept":
    keep_freed_memory()
before = resident()
blocks = [np.ones((128 << 20) // int(sys.argv[3]), "uint8") for _ in range(int(sys.argv[3]))]
del blocks
print(resident() - before)
"""


def remaining(how, blocks):
    """Return the memory, in kB, that stays resident after it is freed."""
    command = [sys.executable, "-c", SCRIPT, str(ROOT / "keras_permix/utils"), how, str(blocks)]
    return int(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


@pytest.mark.skipif(sys.platform != "linux", reason="requires the allocator of Linux")
@pytest.mark.parametrize("blocks", [1, 8])
def test_freed_memory_is_kept(blocks):
    assert remaining("plain", blocks) < 20_000 < 120_000 < remaining("kept", blocks)


@pytest.mark.parametrize(("command", "calls"), [("train", 1), ("list", 0)])
def test_training_keeps_freed_memory(command, calls, monkeypatch):
    called = []
    monkeypatch.setattr("keras_permix.utils.machine.keep_freed_memory", lambda: called.append(1))
    arguments = [command, "no/such"] if command == "train" else [command]
    cli.main(arguments)
    assert len(called) == calls


@pytest.mark.parametrize(
    ("written", "named"),
    [
        ("NVIDIA UNIX x86_64 Kernel Module  535.129.03  Thu Oct 19\nGCC 11.4.0 ", "535.129.03"),
        ("NVIDIA UNIX Open Kernel Module for x86_64  570.133.20  Release", "570.133.20"),
    ],
)
def test_nvidia_driver(written, named, tmp_path):
    (tmp_path / "version").write_text(written)
    assert driver(tmp_path / "version") == f"NVIDIA {named}"


def test_tpu_driver_or_no_driver(tmp_path, monkeypatch):
    def version(name):
        assert name == "libtpu"
        if not installed:
            raise PackageNotFoundError(name)
        return installed

    monkeypatch.setattr("importlib.metadata.version", version)
    installed = "0.0.42"
    assert driver(tmp_path / "no file") == "libtpu 0.0.42"
    installed = None
    assert driver(tmp_path / "no file") == ""
