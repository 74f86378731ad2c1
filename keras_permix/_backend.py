"""Take the only backend that is installed, before Keras is imported and asks for TensorFlow."""

import importlib.util
import os

BACKENDS = ("jax", "tensorflow", "torch")


def installed_backends():
    """Names of the Keras backends that are installed, none of them imported."""
    return [name for name in BACKENDS if importlib.util.find_spec(name)]


if "KERAS_BACKEND" not in os.environ and len(installed_backends()) == 1:
    os.environ["KERAS_BACKEND"] = installed_backends()[0]
