"""Dense, embedding and dropout layers that the layers of this package are made of."""

import keras
from keras import ops

from keras_permix.layers.parts.wrappers import policy_at
from keras_permix.ops import dense
from keras_permix.ops.backend import running


def assign_copy(variable, value):
    """Give a variable a copy of a value, in its dtype.

    On JAX two variables would hold one array otherwise, which the first step of either deletes.

    Args:
        variable: A Keras variable.
        value: A tensor or another variable, of the same shape.
    """
    variable.assign(ops.copy(ops.cast(value, variable.dtype)))


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


@keras.saving.register_keras_serializable("keras_permix")
class Embedding(keras.layers.Embedding):
    """`keras.layers.Embedding`, whose gradient is dense on TensorFlow as well.

    There Keras' own is a row for each token, and Keras' optimizers square the rows before they add
    up those of one token: Adam and clipping by norms would do something else than elsewhere.
    Quantization and LoRA are Keras' own.
    """

    def call(self, inputs):
        table = running.with_dense_gradient(keras.ops.convert_to_tensor(self.embeddings))
        outputs = keras.ops.take(table, keras.ops.cast(inputs, "int32"), axis=0)
        return keras.ops.cast(outputs, self.compute_dtype)

    def quantize(self, mode=None, type_check=True, **kwargs):
        # Keras refuses subclasses, which might compute something else.
        return super().quantize(mode, type_check=False, **kwargs)


def make_dropout(rate, **kwargs):
    """Make a `Dropout` layer, or `Identity` for a rate of zero.

    `Dropout` reads its argument `training` as a Python boolean even at rate zero, which Keras'
    rematerialization of every layer cannot give it on JAX.
    """
    if rate:
        return keras.layers.Dropout(rate, **kwargs)
    return keras.layers.Identity(**kwargs)


@keras.saving.register_keras_serializable("keras_permix")
class FirstToken(keras.layers.Layer):
    """From `(batch, tokens, channels)` to the first tokens, `(batch, channels)`.

    A slice in the graph of a Keras model would do, but that JAX 0.8 cannot rematerialize one.
    """

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.supports_masking = True

    def call(self, tokens):
        return tokens[:, 0]

    def compute_mask(self, tokens, previous_mask=None):
        return None

    def compute_output_spec(self, tokens):
        return keras.KerasTensor((tokens.shape[0], tokens.shape[2]), self.compute_dtype)
