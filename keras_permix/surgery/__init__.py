"""Exchange parts of models that are there already."""

from keras_permix.surgery.swap import swap_mixer

__all__ = ["swap_mixer"]
