"""Register the classes of models; presets and models import this file."""

from typing import Any, TypeVar

import keras

MODELS: dict[str, type[Any]] = {}  # class name -> class
Class = TypeVar("Class", bound=type)


def zoo_model(cls: Class) -> Class:
    """Register a class as a model of the zoo and with Keras."""
    MODELS[cls.__name__] = cls
    return keras.saving.register_keras_serializable("keras_permix")(cls)
