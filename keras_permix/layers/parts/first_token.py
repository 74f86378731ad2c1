"""The class token, which stands first."""

import keras


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
