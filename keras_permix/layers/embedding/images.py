"""From images of 0–255 to normalized floats of a model's size."""

import keras
from keras import ops


@keras.saving.register_keras_serializable("keras_permix")
class ImagePreprocessor(keras.layers.Layer):
    """Turn images of 0–255 into normalised floats of the model's size.

    Input: `(batch, height, width, channels)`, any integer or float dtype, 0–255.
    Output: `(batch, image_size, image_size, channels)`, `(x / 255 - mean) / std`, computed in
    float32 and given in the layer's compute dtype. Images of another size are resized (bilinear,
    antialiased) before they are normalised.

    Args:
        image_size: Side of the output in pixels.
        mean, std: One value per channel, on the scale 0–1.
    """

    def __init__(self, image_size, mean, std, **kwargs):
        super().__init__(autocast=False, **kwargs)
        self.image_size = image_size
        self.mean = [float(value) for value in mean]
        self.std = [float(value) for value in std]

    def call(self, images):
        images = ops.cast(images, "float32")
        size = (self.image_size, self.image_size)
        if tuple(images.shape[1:3]) != size:
            images = ops.image.resize(images, size, interpolation="bilinear", antialias=True)
        mean = ops.convert_to_tensor([255 * value for value in self.mean], "float32")
        scale = ops.convert_to_tensor([1 / (255 * value) for value in self.std], "float32")
        return ops.cast((images - mean) * scale, self.compute_dtype)

    def compute_output_shape(self, input_shape):
        return (input_shape[0], self.image_size, self.image_size, input_shape[-1])

    def get_config(self):
        config = {"image_size": self.image_size, "mean": self.mean, "std": self.std}
        return {**super().get_config(), **config}
