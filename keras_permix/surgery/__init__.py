"""Replace parts of existing models."""

from keras_permix.surgery.distill import distill
from keras_permix.surgery.swap import swap_mixer

__all__ = ["distill", "swap_mixer"]
