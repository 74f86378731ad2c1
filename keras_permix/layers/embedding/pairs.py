"""The two texts of a pair as samples of their own."""

import keras
from keras import ops


@keras.saving.register_keras_serializable("keras_permix")
class SplitPairs(keras.layers.Layer):
    """From pairs `(batch, 2, tokens)` to `(2 * batch, tokens)`, the texts of a pair one by one.

    Integers or booleans stay what they are. The number of tokens may be unknown.
    """

    def call(self, pairs):
        batch, two, tokens = ops.shape(pairs)
        return ops.reshape(pairs, (batch * two, tokens))

    def compute_output_spec(self, pairs):
        batch, two, tokens = pairs.shape
        return keras.KerasTensor((batch and batch * two, tokens), pairs.dtype)
