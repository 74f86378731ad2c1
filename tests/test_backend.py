"""An installed backend is found where nobody names one, and a choice is left alone."""

import json
import os
import sys

import pytest

from keras_permix import _backend

pytestmark = pytest.mark.once


@pytest.fixture
def machine(monkeypatch, tmp_path):
    """Seem to have some backends, and perhaps Keras' file of settings, before Keras is imported."""
    monkeypatch.delitem(sys.modules, "keras")
    monkeypatch.setenv("KERAS_HOME", str(tmp_path))
    monkeypatch.setenv("KERAS_BACKEND", "")

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


def test_settings_that_are_damaged_are_none(machine):
    assert machine(["torch"], "{") == "torch"


def test_a_choice_is_left_alone(machine, monkeypatch):
    monkeypatch.setenv("KERAS_BACKEND", "torch")
    assert machine(["jax"]) == "torch"


def test_keras_that_runs_is_left_alone(machine, monkeypatch):
    monkeypatch.setitem(sys.modules, "keras", object())
    assert machine(["jax"]) == ""


def test_no_backend_at_all(monkeypatch):
    monkeypatch.setattr(_backend, "installed_backends", list)
    with pytest.raises(ImportError, match=r'pip install "keras_permix\[jax\]"'):
        _backend.check()
