"""Linear maps with gradients of any order, and Sinkhorn's iteration, in TensorFlow."""

import tensorflow as tf

from keras_permix.ops.reference.linear import sinkhorn_by


def linear(function, transpose):
    """`function` of a tensor, whose gradient is `transpose`, whose gradient is `function` again.

    Both keep the shape, which the layers behind may have lost from what they hand back.
    """

    @tf.custom_gradient
    def differentiable(x):
        def gradient(grad):
            return linear(transpose, function)(tf.ensure_shape(grad, x.shape))

        # Without a stop the tape would record what is inside, too.
        return function(tf.stop_gradient(x)), gradient

    return differentiable


def dense(x):
    """`x`, whose gradient is a tensor, whatever it was: no `tf.IndexedSlices`."""
    return linear(tf.identity, tf.identity)(tf.convert_to_tensor(x))


@sinkhorn_by
def sinkhorn(function, value, times):
    """A loop whose number of passes XLA knows, which it must for a gradient."""
    shape = value.shape

    def step(value):
        return (tf.ensure_shape(function(value), shape),)

    return tf.while_loop(lambda _: True, step, (value,), maximum_iterations=times)[0]
