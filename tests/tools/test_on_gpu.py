"""Test the GPU plan: cases and files exist, dry run on a CPU, failed steps."""

import os
import subprocess
import sys

import keras
import pytest

from keras_permix.bench import layers, models, ops
from tests.harness import ROOT, load_module

tool = load_module("tools/on_gpu.py")

BENCHES = {"ops": ops, "layers": layers, "models": models}


@pytest.mark.parametrize("step", tool.MEASUREMENTS, ids=lambda step: step.name)
def test_measured_cases_exist(step):
    for command in (step.command, step.dry):
        what, _, *rest = command[len(tool.BENCH) :]
        cases = rest[: next(at for at, word in enumerate(rest) if word.startswith("--"))]
        assert cases and set(cases) <= set(BENCHES[what].CASES)


@pytest.mark.parametrize("step", tool.CHECKS, ids=lambda step: step.name)
def test_checked_files_exist(step):
    files = [word for word in (*step.command, *step.dry) if word.startswith("tests/")]
    assert files and all((ROOT / file).exists() for file in files)


@pytest.mark.skipif(keras.config.backend() == "tensorflow", reason="for JAX and PyTorch")
def test_dry_run(tmp_path):
    backend = keras.config.backend()
    asked = ["--dry-run", "--out", tmp_path, "--only", f"ops_{backend}_bfloat16"]
    command = [sys.executable, ROOT / "tools" / "on_gpu.py", *asked]
    done = subprocess.run(command, capture_output=True, text=True, env=os.environ)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 rows" in done.stdout.splitlines()[-1]
    assert (tmp_path / f"ops_{backend}_bfloat16.csv").is_file()


def test_failed_steps_are_reported(tmp_path, monkeypatch, capsys):
    failing = tool.Step("failing", "keras", 30, ("-c", "print('1 failed'); exit(3)"), ())
    slow = tool.Step("slow", "keras", 1, ("-c", "import time; time.sleep(60)"), ())
    absent = tool.Step("absent", "no_such_framework", 30, ("-c", "pass"), ())
    monkeypatch.setattr(tool, "PROBE", failing)
    monkeypatch.setattr(tool, "CHECKS", (slow, absent))
    monkeypatch.setattr(tool, "MEASUREMENTS", ())
    assert tool.main(["--out", str(tmp_path)]) == 1
    table = capsys.readouterr().out.splitlines()[-3:]
    with pytest.raises(SystemExit):
        tool.main(["--out", str(tmp_path), "--only", "no such step"])
    failed = ("exit 1: 2 failed, 101 passed in 60 s", "stopped at the limit: 600 passed")
    assert all(tool.FAILED.search(result) for result in failed)
    assert "exit 3: 1 failed" in table[0]
    assert "stopped at the limit" in table[1]
    assert "not installed" in table[2]
    assert tool.FAILED.search("160 skipped in 3 s")
    assert not tool.FAILED.search("101 passed, 9 skipped, 1 xfailed in 60 s")


def test_no_step_runs_without_a_gpu(tmp_path, monkeypatch, capsys):
    without = tool.Step("device", "keras", 30, ("-c", f"print({tool.NO_GPU!r}); exit(1)"), ())
    next_step = tool.Step("next", "keras", 30, ("-c", "print('1 passed')"), ())
    monkeypatch.setattr(tool, "PROBE", without)
    monkeypatch.setattr(tool, "CHECKS", (next_step,))
    monkeypatch.setattr(tool, "MEASUREMENTS", ())
    assert tool.main(["--out", str(tmp_path)]) == 1
    assert "1 passed" not in capsys.readouterr().out
    monkeypatch.setattr(tool, "CHECKS", (next_step._replace(backend="numpy"),))  # may have one
    assert tool.main(["--out", str(tmp_path)]) == 1
    assert "1 passed" in capsys.readouterr().out
