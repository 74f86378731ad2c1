"""Which backend Keras will run on, asked and chosen before Keras is imported."""

import importlib.util
import json
import os
import sys
from pathlib import Path

BACKENDS = ("jax", "tensorflow", "torch")


def installed_backends():
    """Names of the Keras backends that are installed, none of them imported."""
    return [name for name in BACKENDS if importlib.util.find_spec(name)]


def choose():
    """Take a backend that is installed where Keras would ask for one that is not.

    `KERAS_BACKEND` is left alone, and so is the backend in Keras' file of settings, if it is
    installed: Keras itself writes TensorFlow there, the first time that it is imported.
    """
    if os.environ.get("KERAS_BACKEND") or "keras" in sys.modules:
        return
    installed = installed_backends()
    absent = set(BACKENDS) - set(installed)
    if installed and _backend_of_settings() in absent:
        os.environ["KERAS_BACKEND"] = installed[0]


def check():
    """Raise where Keras could not be imported, before it is.

    Raises:
        ImportError: if no backend is installed.
        ValueError: if `KERAS_BACKEND` names none that is.
    """
    installed = installed_backends()
    if not installed:
        raise ImportError(
            'Keras needs a backend: pip install "keras_permix[jax]", or [tensorflow], or [torch].'
        )
    name = os.environ.get("KERAS_BACKEND")
    if name and name not in installed:
        raise ValueError(
            f"`KERAS_BACKEND` must be a backend that is installed: {', '.join(installed)}. "
            f"Received: KERAS_BACKEND={name}"
        )


def _backend_of_settings():
    """The backend in Keras' file of settings, `keras.json`; TensorFlow if it says none."""
    home = os.path.expanduser("~")
    folder = Path(home if os.access(home, os.W_OK) else "/tmp", ".keras")
    folder = Path(os.environ.get("KERAS_HOME", folder)).expanduser()
    try:
        settings = json.loads((folder / "keras.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        settings = {}
    return settings.get("backend", "tensorflow")
