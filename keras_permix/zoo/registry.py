"""Which classes are models of the zoo: a leaf, which presets and models import alike."""

from typing import Any, TypeVar

import keras

MODELS: dict[str, type[Any]] = {}  # class name -> class
Class = TypeVar("Class", bound=type)


def zoo_model(cls: Class) -> Class:
    """Put a class among the models of the zoo, and register it with Keras."""
    MODELS[cls.__name__] = cls
    return keras.saving.register_keras_serializable("keras_permix")(cls)
