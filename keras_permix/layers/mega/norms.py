"""The normalizations that MEGA's models choose from."""

import keras
from keras import ops

from keras_permix.ops.reference.linear import full_precision

EPSILON = 1e-5


@keras.saving.register_keras_serializable("keras_permix")
class ScaleNorm(keras.layers.Layer):
    """Bring every token to one learned length: `scale * x / sqrt(mean(x**2) + epsilon)`.

    Input and output: `(…, channels)`. It is computed in float32, or in float64 for such inputs.

    Args:
        epsilon: What is added to the mean.

    Example:

    >>> import numpy as np
    >>> from keras_permix.layers.mega.norms import ScaleNorm
    >>> outputs = keras.ops.convert_to_numpy(ScaleNorm()(np.array([[3.0, -3.0]], "float32")))
    >>> outputs.round(3).tolist()
    [[1.0, -1.0]]

    Source: Nguyen & Salazar, "Transformers without Tears", 2019; with the mean in place of the
    sum, as in the released code of MEGA.
    """

    def __init__(self, epsilon=EPSILON, **kwargs):
        super().__init__(**kwargs)
        self.supports_masking = True
        self.epsilon = epsilon

    def build(self, input_shape):
        self.scale = self.add_weight(shape=(), initializer="ones", name="scale", autocast=False)

    def call(self, inputs):
        x = ops.cast(inputs, full_precision(inputs.dtype))  # squares overflow in float16
        # A sum, since the `mean` of Keras knows no float64 on PyTorch.
        mean = ops.sum(ops.square(x), axis=-1, keepdims=True) / x.shape[-1]
        return ops.cast(self.scale * x * ops.rsqrt(mean + self.epsilon), inputs.dtype)

    def compute_output_shape(self, input_shape):
        return tuple(input_shape)

    def get_config(self):
        return {**super().get_config(), "epsilon": self.epsilon}


NORMS = {
    "layernorm": keras.layers.LayerNormalization,
    "scalenorm": ScaleNorm,
    "rmsnorm": keras.layers.RMSNormalization,
    "batchnorm": keras.layers.BatchNormalization,
}


def make_norm(norm, **kwargs):
    """Make the layer that `norm`, a key of `NORMS`, names."""
    momentum = {"momentum": 0.9} if norm == "batchnorm" else {}
    layer = NORMS[norm](epsilon=EPSILON, **momentum, **kwargs)
    layer.supports_masking = True  # which Keras' RMSNormalization does not say of itself
    return layer


def normalize(norm, inputs, mask):
    """Call a norm. Padding does not count in the statistics of a batch; others have none."""
    if isinstance(norm, keras.layers.BatchNormalization):
        return norm(inputs, mask=mask)
    return norm(inputs)
