"""An installed backend is found where nobody names one, and a choice is left alone."""

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
    """Seem to have some backends, and perhaps Keras' file of settings, before Keras is imported."""
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
        (["torch"], {"backend": "tensorflow"}, "torch"),  # as Keras itself writes it
        (["jax", "torch"], None, "jax"),
        (["jax", "tensorflow"], None, ""),  # Keras takes TensorFlow
        (["jax", "torch"], {"backend": "torch"}, ""),
        (["jax"], {"backend": "numpy"}, ""),
        (["torch"], {"floatx": "float32"}, "torch"),
        ([], None, ""),
    ],
)
def test_an_installed_backend_is_chosen(machine, installed, settings, chosen):
    assert machine(installed, settings and json.dumps(settings)) == chosen


def test_a_folder_that_cannot_be_made_is_named(tmp_path, monkeypatch, capsys):
    (tmp_path / "file").touch()
    monkeypatch.setenv("KERAS_HOME", str(tmp_path / "file" / "folder"))
    assert main(["backend", "torch"]) == 2
    assert (
        "`KERAS_HOME` must name a folder that exists or can be created" in capsys.readouterr().err
    )


def test_settings_that_are_damaged_are_none(machine):
    assert machine(["torch"], "{") == "torch"


def test_a_choice_is_left_alone(machine, monkeypatch):
    monkeypatch.setenv("KERAS_BACKEND", "torch")
    assert machine(["jax"]) == "torch"


def test_keras_that_runs_is_left_alone(machine, monkeypatch):
    monkeypatch.setitem(sys.modules, "keras", object())
    assert machine(["jax"]) == ""


def test_a_folder_is_no_backend(monkeypatch, tmp_path):
    for name in _backend.BACKENDS:
        (tmp_path / name).mkdir()
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    monkeypatch.setattr(sys, "meta_path", [PathFinder])
    assert _backend.installed_backends() == []


def test_no_backend_at_all(machine, monkeypatch):
    monkeypatch.setattr(_backend, "installed_backends", list)
    with pytest.raises(ImportError, match=r'pip install "keras_permix\[jax\]"'):
        _backend.check()


def test_a_backend_that_is_not_installed(machine, monkeypatch):
    monkeypatch.setenv("KERAS_BACKEND", "tensorflow")
    machine(["jax"])
    with pytest.raises(ValueError, match="`KERAS_BACKEND` must.*: jax. Received: .*=tensorflow"):
        _backend.check()


def test_a_backend_is_kept(machine, tmp_path, capsys):
    machine(["jax", "torch"], json.dumps({"floatx": "float16", "backend": "tensorflow"}))
    assert main(["backend", "torch"]) == 0
    assert capsys.readouterr().out == f"torch, kept in {tmp_path / 'keras.json'}\n"
    settings = json.loads((tmp_path / "keras.json").read_text())
    assert settings == {"floatx": "float16", "backend": "torch"}


def test_the_backend_is_shown(machine, monkeypatch, capsys):
    assert machine(["jax"]) == "jax"  # for this process alone: `import keras` does not look
    assert main(["backend"]) == 0
    monkeypatch.setenv("KERAS_BACKEND", "")
    machine(["jax", "torch"], json.dumps({"backend": "torch"}))
    assert main(["backend"]) == 0
    monkeypatch.setenv("KERAS_BACKEND", "jax")
    monkeypatch.setattr(_backend, "_chosen", None)
    assert main(["backend"]) == main(["backend", "torch"]) == 0
    absent, *others, kept = capsys.readouterr().out.splitlines()
    started = "Keras starts with tensorflow, which is not installed (installed: jax)"
    assert absent == f"{started}; permix takes jax"
    assert others == [
        f"Keras starts with {name} (installed: jax, torch)" for name in ("torch", "jax")
    ]
    assert kept.endswith("keras.json; KERAS_BACKEND=jax goes first")


@pytest.mark.parametrize("settings", ["{", "[1]", '{"backend": ["jax"]}'])
def test_settings_that_are_damaged_are_told(settings, machine, tmp_path, capsys):
    assert machine(["jax"], settings) == "jax"
    assert main(["backend"]) == 2
    error = capsys.readouterr().err
    assert "Keras' settings file must hold a JSON object" in error
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
def test_a_backend_that_cannot_be_kept(settings, name, message, machine, tmp_path, capsys):
    machine(["jax"], settings)
    assert main(["backend", name]) == 2
    assert message in capsys.readouterr().err
    assert (tmp_path / "keras.json").read_text() == settings


@pytest.mark.parametrize("name", _backend.installed_backends())
def test_keras_starts_with_the_backend_that_is_kept(name, tmp_path):
    """As a user does it who sets nothing, and imports Keras first."""
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
