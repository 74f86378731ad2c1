"""From images to tokens, a square patch each."""

import keras
from keras import ops

from keras_permix.layers.parts.dense import Dense


@keras.saving.register_keras_serializable("keras_permix")
class PatchEmbedding(keras.layers.Layer):
    """Cut images into square patches and project each to a token.

    Input: `(batch, size, size, channels)`. Output: `(batch, (size / patch_size)**2, width)`, the
    patches in rows; a patch is flattened in (row, column, channel) order.

    Args:
        patch_size: Side of a patch in pixels; it divides the side of the image.
        width: Channels of a token.
    """

    def __init__(self, patch_size, width, **kwargs):
        super().__init__(**kwargs)
        self.patch_size = patch_size
        self.width = width

    def build(self, input_shape):
        self.dense = Dense(self.width, dtype=self.dtype_policy, name="projection")
        self.dense.build((None, None, self.patch_size**2 * input_shape[-1]))

    def call(self, images):
        rows, patch, channels = images.shape[1] // self.patch_size, self.patch_size, images.shape[3]
        patches = ops.reshape(images, (-1, rows, patch, rows, patch, channels))
        patches = ops.transpose(patches, (0, 1, 3, 2, 4, 5))
        return self.dense(ops.reshape(patches, (-1, rows * rows, patch * patch * channels)))

    def compute_output_shape(self, input_shape):
        return (input_shape[0], (input_shape[1] // self.patch_size) ** 2, self.width)

    def get_config(self):
        return {**super().get_config(), "patch_size": self.patch_size, "width": self.width}
