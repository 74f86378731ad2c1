"""Test models on several TensorFlow replicas, with boolean arrays such as masks."""

import json
import subprocess
import sys

import keras
import pytest

from tests.harness import ROOT, assert_close
from tests.harness.processes import environment


@pytest.mark.skipif(keras.config.backend() != "tensorflow", reason="replicas of TensorFlow")
def test_texts_on_two_replicas():
    command = [sys.executable, "-m", "tests.zoo.two_replicas"]
    done = subprocess.run(command, cwd=ROOT, env=environment(), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-4000:]
    shared, alone = json.loads(done.stdout.splitlines()[-1])
    assert shared.keys() == alone.keys()
    for way, found in shared.items():
        for ours, theirs in zip(*map(keras.tree.flatten, (found, alone[way])), strict=True):
            assert_close(ours, theirs, kind="model")
