"""Which classes are models of the zoo: a leaf, which presets and models import alike."""

import keras

MODELS = {}  # class name -> class


def zoo_model(cls):
    """Put a class among the models of the zoo, and register it with Keras."""
    MODELS[cls.__name__] = cls
    return keras.saving.register_keras_serializable("keras_permix")(cls)
