"""Types that annotations share: a leaf, which no annotation makes import a framework."""

import os
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

# Of the backend that runs, of Keras' own while a model is drawn, or of NumPy: classes of packages
# that need not be installed, with no base in common. Keras itself comes without types.
Tensor: TypeAlias = Any
Mask: TypeAlias = Tensor | None
Layer: TypeAlias = Any
Model: TypeAlias = Any
DType: TypeAlias = Any  # a name, a dtype policy of Keras or the config of one, or None

Shape: TypeAlias = tuple[int | None, ...]
MixerSpec: TypeAlias = str | dict[str, Any] | Layer  # a name, a dict with it and arguments, a layer
# One for all blocks, one per block, or a function from the index of a block to its mixer.
MixerSpecs: TypeAlias = MixerSpec | Sequence[MixerSpec] | Callable[[int], MixerSpec]
Labels: TypeAlias = list[str] | tuple[str, ...]
StrPath: TypeAlias = str | os.PathLike[str]
