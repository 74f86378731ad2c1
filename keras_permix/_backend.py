"""Which backend Keras will run on, asked and chosen before Keras is imported."""

import importlib.util
import json
import os
import sys
from pathlib import Path

BACKENDS = ("jax", "tensorflow", "torch")
DEFAULT = "tensorflow"  # of Keras, where nothing is set

_chosen: str | None = None  # what `choose` has put into `KERAS_BACKEND`


def installed_backends():
    """Names of the Keras backends that are installed, none of them imported."""
    specs = {name: importlib.util.find_spec(name) for name in BACKENDS}
    # A folder of that name, in which one works, is none: it has no file to import.
    return [name for name, spec in specs.items() if spec and spec.origin]


def choose():
    """Take a backend that is installed where Keras would ask for one that is not.

    `KERAS_BACKEND` is left alone, and so is the backend in Keras' file of settings, if it is
    installed: Keras itself writes TensorFlow there, the first time that it is imported.
    """
    if os.environ.get("KERAS_BACKEND") or "keras" in sys.modules:
        return
    installed = installed_backends()
    absent = set(BACKENDS) - set(installed)
    if installed and backend_of_settings() in absent:
        os.environ["KERAS_BACKEND"] = installed[0]
        global _chosen
        _chosen = installed[0]


def check():
    """Raise where Keras could not be imported, before it is.

    Raises:
        ImportError: if no backend is installed.
        ValueError: if `KERAS_BACKEND` names none that is.
    """
    if "keras" in sys.modules:
        return
    installed = installed_backends()
    if not installed:
        raise ImportError(
            'Keras needs a backend: pip install "keras_permix[jax]", or [tensorflow], or [torch].'
        )
    if name := os.environ.get("KERAS_BACKEND"):
        check_installed("KERAS_BACKEND", name)


def set_by_user():
    """What the user has put into `KERAS_BACKEND`, if anything."""
    name = os.environ.get("KERAS_BACKEND")
    return None if name == _chosen else name


def check_installed(argument, name):
    """Raise ValueError for a backend that is not installed, the value of an argument."""
    installed = installed_backends()
    if name not in installed:
        raise ValueError(
            f"`{argument}` must be a backend that is installed: {', '.join(installed)}. "
            f"Received: {argument}={name}"
        )


def settings_file():
    """Where Keras keeps its settings."""
    home = os.path.expanduser("~")
    folder = Path(home if os.access(home, os.W_OK) else "/tmp", ".keras")
    return Path(os.environ.get("KERAS_HOME", folder)).expanduser() / "keras.json"


def settings():
    """What Keras' file of settings holds: nothing if it is absent.

    Raises:
        ValueError: if it is damaged.
    """
    path = settings_file()
    try:
        settings = json.loads(path.read_text(encoding="utf-8"))
        if not (isinstance(settings, dict) and isinstance(settings.get("backend", ""), str)):
            raise ValueError(str(settings)[:200])
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except ValueError as error:
        raise ValueError(
            'Keras\' file of settings must hold a JSON object, and as its "backend" a name. Mend '
            f"it, or remove it. Received: {path} ({error})"
        ) from error
    return settings


def backend_of_settings():
    """The backend that Keras' settings name, TensorFlow if they name none or are damaged."""
    try:
        return settings().get("backend", DEFAULT)
    except (OSError, ValueError):
        return DEFAULT
