"""Token mixing without attention: Keras 3 layers that permute, and a zoo of models made of them.

Ops, layers and models run alike on TensorFlow, JAX and PyTorch; choose with `KERAS_BACKEND`.
"""

from keras_permix import _backend
from keras_permix._version import __version__

_backend.choose()  # before everything that imports Keras
_backend.check()

from keras_permix import layers, ops, zoo  # noqa: E402
from keras_permix.surgery import distill, swap_mixer  # noqa: E402

__all__ = ["__version__", "distill", "layers", "ops", "swap_mixer", "zoo"]


def __dir__() -> list[str]:
    return __all__
