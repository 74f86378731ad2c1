"""Sinkhorn's iterations, in TensorFlow."""

import tensorflow as tf

from keras_permix.ops.reference.sinkhorn import as_implementation


@as_implementation
def sinkhorn(function, value, times):
    """A loop whose number of passes XLA knows, which it must for a gradient."""
    shape = value.shape

    def step(value):
        return (tf.ensure_shape(function(value), shape),)

    return tf.while_loop(lambda _: True, step, (value,), maximum_iterations=times)[0]
