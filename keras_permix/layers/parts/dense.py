"""A dense layer that is as fast as the backend has it."""

import keras

from keras_permix.layers.parts.composite import policy_at
from keras_permix.ops import dense


@keras.saving.register_keras_serializable("keras_permix")
class Dense(keras.layers.Dense):
    """`keras.layers.Dense`, whose product is `keras_permix.ops.dense`.

    Quantization and LoRA are Keras' own.
    """

    def build(self, input_shape):
        self._dtype_policy = policy_at(self._dtype_policy, self.path)
        super().build(input_shape)

    def call(self, inputs, training=None):
        kernel = keras.ops.convert_to_tensor(self.kernel)
        bias = None if self.bias is None else keras.ops.convert_to_tensor(self.bias)
        outputs = dense(inputs, kernel, bias)
        return outputs if self.activation is None else self.activation(outputs)

    def quantize(self, mode=None, type_check=True, **kwargs):
        # Keras refuses subclasses, which might compute something else.
        return super().quantize(mode, type_check=False, **kwargs)
