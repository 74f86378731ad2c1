"""Types that annotations share: a leaf, which no annotation makes import a framework."""

import os
from collections.abc import Sequence
from typing import Any, TypeAlias

# Of the backend that runs, of Keras' own while a model is drawn, or of NumPy: classes of packages
# that need not be installed, with no base in common. Keras itself comes without types.
Tensor: TypeAlias = Any
Mask: TypeAlias = Tensor | None
Layer: TypeAlias = Any
Model: TypeAlias = Any
DType: TypeAlias = Any  # a name, a dtype policy of Keras or the config of one, or None

Shape: TypeAlias = tuple[int | None, ...]
MixerSpec: TypeAlias = str | dict[str, Any]  # a name, or a dict with it and arguments of the layer
MixerSpecs: TypeAlias = MixerSpec | Sequence[MixerSpec]  # one for all blocks, or one per block
Labels: TypeAlias = list[str] | tuple[str, ...]
StrPath: TypeAlias = str | os.PathLike[str]
