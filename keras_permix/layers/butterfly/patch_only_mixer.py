"""Mix images patch by patch (Patch-Only MLP-Mixer)."""

import warnings
from collections.abc import Sequence
from math import lcm, prod
from typing import Any

import keras

from keras_permix._typing import Shape, Tensor
from keras_permix.layers.parts.wrappers import Composite
from keras_permix.ops import patchify, unpatchify
from keras_permix.utils.checks import check_integer


@keras.saving.register_keras_serializable("keras_permix")
class PatchOnlyMixer(Composite):
    """Mix the pixels and channels of every patch by one MLP, with a residual.

    Computes `images + unpatchify(dense(gelu(dense(norm(patchify(images))))))`. All patches share
    the MLP. Several patch sizes are applied in order, with separate weights. Repeated layers mix
    the pixels of squares whose side is the least common multiple of the patch sizes. The layer
    warns if the sizes are not pairwise co-prime.

    Input and output: `(batch, height, width, channels)`. The patch sizes must divide height and
    width, which may be unknown while TensorFlow traces.

    Args:
        patch_size: Side of a patch in pixels, or several sides, such as (5, 7).
        expansion: Ratio of hidden units to features of a patch.
        epsilon: Epsilon of the layer normalization, over the features of a patch.

    Raises:
        ValueError: for an argument out of range, or sizes that do not divide height and width.

    Example:
        >>> import numpy as np
        >>> from keras_permix.layers import PatchOnlyMixer
        >>> tuple(PatchOnlyMixer((5, 7))(np.ones((2, 35, 70, 3), "float32")).shape)
        (2, 35, 70, 3)

    Reference: Sapkota & Bhattarai, "Dimension Mixer", 2023, arXiv:2311.18735, Table V.
    """

    def __init__(
        self,
        patch_size: int | Sequence[int],
        expansion: int = 2,
        epsilon: float = 1e-5,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.supports_masking = False
        self.input_spec = keras.InputSpec(ndim=4)
        several = isinstance(patch_size, list | tuple)
        sizes: Any = patch_size if several and patch_size else [patch_size]
        self.patch_sizes = [check_integer("patch_size", size) for size in sizes]
        if (side := lcm(*self.patch_sizes)) < prod(self.patch_sizes):
            rule = f"`patch_size` should be pairwise co-prime, or only squares of {side} are mixed"
            warnings.warn(f"{rule}. Received: patch_size={self.patch_sizes}", stacklevel=2)
        patch_size = list(self.patch_sizes) if several else self.patch_sizes[0]
        self._store(locals())

    def build(self, input_shape: Shape) -> None:
        self.norms, self.mlps_in, self.mlps_out = [], [], []
        for index, size in enumerate(self.patch_sizes):
            shape = patchify(keras.KerasTensor(input_shape), size).shape
            features, hidden = shape[-1], shape[-1] * self.expansion
            self.norms.append(self._norm(f"norm_{index}", shape))
            self.mlps_in.append(self._dense(f"mlp_in_{index}", hidden, shape, "gelu"))
            self.mlps_out.append(self._dense(f"mlp_out_{index}", features, (*shape[:2], hidden)))

    def call(self, images: Tensor) -> Tensor:
        images = keras.ops.cast(images, self.compute_dtype)
        _, height, width, _ = keras.ops.shape(images)
        layers = zip(self.patch_sizes, self.norms, self.mlps_in, self.mlps_out, strict=True)
        for size, norm, mlp_in, mlp_out in layers:
            patches = mlp_out(mlp_in(norm(patchify(images, size))))
            images = images + unpatchify(patches, size, height, width)
        return images
