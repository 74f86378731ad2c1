"""From images to tokens, a square patch each."""

from typing import Any

import keras

from keras_permix._typing import Shape, Tensor
from keras_permix.layers.parts.composite import Composite
from keras_permix.layers.parts.dense import Dense
from keras_permix.ops import patchify
from keras_permix.utils.checks import check_integer


@keras.saving.register_keras_serializable("keras_permix")
class PatchEmbedding(Composite):
    """Cut images into square patches and project each to a token.

    Input: `(batch, height, width, channels)`. Output: `(batch, patches, width)`, the patches in
    rows; a patch is flattened in (row, column, channel) order, see `keras_permix.ops.patchify`.

    Args:
        patch_size: Side of a patch in pixels; it divides the sides of the image.
        hidden_dim: Channels per token.

    Raises:
        ValueError: for an argument below 1, or a size that does not divide the image.

    Example:

    >>> import numpy as np
    >>> from keras_permix.layers import PatchEmbedding
    >>> tuple(PatchEmbedding(patch_size=4, hidden_dim=64)(np.ones((2, 32, 32, 3), "float32")).shape)
    (2, 64, 64)

    Source: Dosovitskiy et al., "An Image is Worth 16x16 Words", 2021.
    """

    def __init__(self, patch_size: int, hidden_dim: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.patch_size = check_integer("patch_size", patch_size)
        self.hidden_dim = check_integer("hidden_dim", hidden_dim)

    def build(self, input_shape: Shape) -> None:
        self.dense = Dense(self.hidden_dim, dtype=self.dtype_policy, name="projection")
        self.dense.build((None, None, self.patch_size**2 * input_shape[-1]))

    def call(self, images: Tensor) -> Tensor:
        return self.dense(patchify(images, self.patch_size))

    def compute_output_shape(self, input_shape: Shape) -> Shape:
        batch, height, hidden_dim, _ = input_shape
        known = height is not None and hidden_dim is not None
        patches = height // self.patch_size * (hidden_dim // self.patch_size) if known else None
        return (batch, patches, self.hidden_dim)

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "patch_size": self.patch_size,
            "hidden_dim": self.hidden_dim,
        }
