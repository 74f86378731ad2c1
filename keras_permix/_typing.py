"""Define the types that annotations share, without importing a framework."""

import os
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

# Tensors of the backend, KerasTensors and NumPy arrays have no common base class, and Keras has no
# type annotations.
Tensor: TypeAlias = Any
Mask: TypeAlias = Tensor | None
Layer: TypeAlias = Any
Model: TypeAlias = Any
DType: TypeAlias = Any  # a name, a Keras dtype policy or its config, or None

Shape: TypeAlias = tuple[int | None, ...]
MixerSpec: TypeAlias = str | dict[str, Any] | Layer  # a name, a dict with "name" and arguments
# One spec for all blocks, one per block, or a function from the index of a block to its spec.
MixerSpecs: TypeAlias = MixerSpec | Sequence[MixerSpec] | Callable[[int], MixerSpec]
Labels: TypeAlias = list[str] | tuple[str, ...]
StrPath: TypeAlias = str | os.PathLike[str]
