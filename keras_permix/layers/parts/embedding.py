"""An embedding that trains alike on every backend."""

import keras

from keras_permix.ops.backend import running


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
