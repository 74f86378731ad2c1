"""Types that annotations share: a leaf, which no annotation makes import a framework."""

import os
from typing import Any, TypeAlias

# Of the backend that runs, of Keras' own while a model is drawn, or of NumPy: classes of packages
# that need not be installed, with no base in common. Keras itself comes without types.
Tensor: TypeAlias = Any
Mask: TypeAlias = Tensor | None
Layer: TypeAlias = Any
Model: TypeAlias = Any
DType: TypeAlias = Any  # a name, a dtype policy of Keras or the config of one, or None

Shape: TypeAlias = tuple[int | None, ...]
Labels: TypeAlias = list[str] | tuple[str, ...]
StrPath: TypeAlias = str | os.PathLike[str]
