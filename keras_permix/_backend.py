"""Choose the backend of Keras before Keras is imported."""

import importlib.util
import json
import os
import sys
from pathlib import Path

BACKENDS = ("jax", "tensorflow", "torch")
DEFAULT = "tensorflow"  # Keras' default

_chosen: str | None = None  # set in `KERAS_BACKEND` by `choose`


def installed_backends():
    """Return the names of the installed Keras backends, without importing them."""
    specs = {name: importlib.util.find_spec(name) for name in BACKENDS}
    # A folder of that name in the working directory has no file to import.
    return [name for name, spec in specs.items() if spec and spec.origin]


def choose():
    """Select an installed backend if Keras would require one that is not installed.

    `KERAS_BACKEND` is not changed. The backend in Keras' settings file is used if it is installed;
    Keras writes TensorFlow there when it is first imported.
    """
    if os.environ.get("KERAS_BACKEND") or "keras" in sys.modules:
        return
    try:
        name = settings().get("backend", DEFAULT)
    except (OSError, ValueError):
        name = DEFAULT
    installed = installed_backends()
    if not installed:
        extras = '"keras_permix[jax]", [tensorflow] or [torch]'
        raise ImportError(f"Keras requires a backend: pip install {extras}.")
    if name in set(BACKENDS) - set(installed):
        os.environ["KERAS_BACKEND"] = installed[0]
        global _chosen
        _chosen = installed[0]


def set_by_user():
    """Return the user's `KERAS_BACKEND`, or None."""
    name = os.environ.get("KERAS_BACKEND")
    return None if name == _chosen else name


def check_installed(argument, name):
    """Raise ValueError if the value of an argument is not an installed backend."""
    installed = installed_backends()
    if name not in installed:
        rule = f"`{argument}` must be an installed backend: {', '.join(installed)}."
        raise ValueError(f"{rule} Received: {argument}={name}")


def settings_file():
    """Return the path of Keras' settings."""
    home = os.path.expanduser("~")
    folder = Path(home if os.access(home, os.W_OK) else "/tmp", ".keras")
    return Path(os.environ.get("KERAS_HOME", folder)).expanduser() / "keras.json"


def settings():
    """Read Keras' settings; without a file, return an empty dict."""
    path = settings_file()
    try:
        settings = json.loads(path.read_text(encoding="utf-8"))
        if not (isinstance(settings, dict) and isinstance(settings.get("backend", ""), str)):
            raise ValueError(str(settings)[:200])
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except ValueError as error:
        rule = 'The Keras settings must be a JSON object with the name of a "backend"'
        raise ValueError(f"{rule}. Correct or remove it. Received: {path} ({error})") from error
    return settings
