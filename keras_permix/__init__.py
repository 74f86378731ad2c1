"""Attention-free token mixers and pretrained models for Keras 3 on JAX, PyTorch and TensorFlow."""

from keras_permix import _backend
from keras_permix._version import __version__

_backend.choose()  # before everything that imports Keras

from keras_permix import layers, ops, zoo  # noqa: E402
from keras_permix.surgery import distill, swap_mixer  # noqa: E402

__all__ = ["__version__", "distill", "layers", "ops", "swap_mixer", "zoo"]


def __dir__() -> list[str]:
    return __all__
