"""Test the choice of the default backend and the `backend` command."""

import json
import os
import subprocess
import sys
from importlib.machinery import PathFinder

import pytest

from keras_permix import _backend
from keras_permix.cli import main
from tests.harness import ROOT

pytestmark = pytest.mark.once


@pytest.fixture
def machine(monkeypatch, tmp_path):
    """Simulate a machine with some installed backends before Keras is imported.

    The returned function also takes the text of the settings file of Keras.
    """
    monkeypatch.delitem(sys.modules, "keras")
    monkeypatch.setenv("KERAS_HOME", str(tmp_path))
    monkeypatch.setenv("KERAS_BACKEND", "")
    monkeypatch.setattr(_backend, "_chosen", None)

    def choose(installed, settings=None):
        monkeypatch.setattr(_backend, "installed_backends", lambda: installed)
        if settings is not None:
            (tmp_path / "keras.json").write_text(settings)
        _backend.choose()
        return os.environ["KERAS_BACKEND"]

    return choose


@pytest.mark.parametrize(
    ("installed", "settings", "chosen"),
    [
        (["jax"], None, "jax"),
        (["torch"], {"backend": "tensorflow"}, "torch"),  # the default file of Keras
        (["jax", "torch"], None, "jax"),
        (["jax", "tensorflow"], None, ""),  # Keras uses TensorFlow
        (["jax", "torch"], {"backend": "torch"}, ""),
        (["jax"], {"backend": "numpy"}, ""),
        (["torch"], {"floatx": "float32"}, "torch"),
    ],
)
def test_default_backend(machine, installed, settings, chosen):
    assert machine(installed, settings and json.dumps(settings)) == chosen


def test_command_reports_unusable_keras_home(tmp_path, monkeypatch, capsys):
    (tmp_path / "file").touch()
    monkeypatch.setenv("KERAS_HOME", str(tmp_path / "file" / "folder"))
    assert main(["backend", "torch"]) == 2
    assert str(tmp_path / "file") in capsys.readouterr().err


def test_environment_variable_is_kept(machine, monkeypatch):
    monkeypatch.setenv("KERAS_BACKEND", "torch")
    assert machine(["jax"]) == "torch"


def test_no_choice_after_keras_is_imported(machine, monkeypatch):
    monkeypatch.setitem(sys.modules, "keras", object())
    assert machine(["jax"]) == ""


def test_folder_does_not_count_as_installed_backend(monkeypatch, tmp_path):
    for name in _backend.BACKENDS:
        (tmp_path / name).mkdir()
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    monkeypatch.setattr(sys, "meta_path", [PathFinder])
    assert _backend.installed_backends() == []


def test_no_installed_backend_raises(machine, monkeypatch):
    monkeypatch.setattr(_backend, "installed_backends", list)
    with pytest.raises(ImportError, match=r'pip install "keras_permix\[jax\]"'):
        _backend.choose()


def test_command_saves_backend(machine, tmp_path, capsys):
    machine(["jax", "torch"], json.dumps({"floatx": "float16", "backend": "tensorflow"}))
    assert main(["backend", "torch"]) == 0
    path = tmp_path / "keras.json"
    assert capsys.readouterr().out == f"default backend: torch, saved in {path}\n"
    settings = json.loads((tmp_path / "keras.json").read_text())
    assert settings == {"floatx": "float16", "backend": "torch"}


def test_command_prints_backend(machine, monkeypatch, capsys):
    assert machine(["jax"]) == "jax"  # only in this process, not for `import keras` elsewhere
    assert main(["backend"]) == 0
    monkeypatch.setenv("KERAS_BACKEND", "")
    machine(["jax", "torch"], json.dumps({"backend": "torch"}))
    assert main(["backend"]) == 0
    monkeypatch.setenv("KERAS_BACKEND", "jax")
    monkeypatch.setattr(_backend, "_chosen", None)
    assert main(["backend"]) == main(["backend", "torch"]) == 0
    absent, *others, kept = capsys.readouterr().out.splitlines()
    started = "default backend: tensorflow, which is not installed (installed: jax)"
    assert absent == f"{started}; permix uses jax"
    assert others == [
        f"default backend: {name} (installed: jax, torch)" for name in ("torch", "jax")
    ]
    assert kept.endswith("keras.json; KERAS_BACKEND=jax overrides it")


@pytest.mark.parametrize("settings", ["{", "[1]", '{"backend": ["jax"]}'])
def test_command_reports_damaged_settings(settings, machine, tmp_path, capsys):
    assert machine(["jax"], settings) == "jax"
    assert main(["backend"]) == 2
    error = capsys.readouterr().err
    assert "The Keras settings must be a JSON object" in error
    assert f"Received: {tmp_path / 'keras.json'} (" in error
    assert main(["list"]) == 0


@pytest.mark.parametrize(
    ("settings", "name", "message"),
    [
        ("{}", "abacus", "`NAME` must be an installed backend: jax. Received: NAME=abacus"),
        ("{", "jax", 'name of a "backend". Correct or remove it. Received: '),
        ("[1]", "jax", 'name of a "backend". Correct or remove it. Received: '),
    ],
)
def test_failed_command_keeps_settings(settings, name, message, machine, tmp_path, capsys):
    machine(["jax"], settings)
    assert main(["backend", name]) == 2
    assert message in capsys.readouterr().err
    assert (tmp_path / "keras.json").read_text() == settings


def test_keras_starts_with_saved_backend(tmp_path):
    """The user sets no environment variable and imports Keras first."""
    *_, name = _backend.installed_backends()
    environment = {**os.environ, "KERAS_HOME": str(tmp_path / "new"), "PYTHONPATH": str(ROOT)}
    environment.pop("KERAS_BACKEND", None)

    def python(*arguments):
        command = [sys.executable, *arguments]
        done = subprocess.run(
            command, env=environment, cwd=tmp_path, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    python("-m", "permix", "backend", name)
    assert python("-c", "import keras; print(keras.backend.backend())") == f"{name}\n"
