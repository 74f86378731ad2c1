"""Define linear maps with gradients of any order in TensorFlow."""

import tensorflow as tf


def linear(function, transpose):
    """Return `function` with the gradient `transpose`, whose gradient is `function` again.

    Both keep the shape, which gradients from later layers may have lost.
    """

    @tf.custom_gradient
    def differentiable(x):
        def gradient(grad):
            return linear(transpose, function)(tf.ensure_shape(grad, x.shape))

        # Without `stop_gradient`, the tape would also record the operations inside.
        return function(tf.stop_gradient(x)), gradient

    return differentiable


def dense(x):
    """Return `x` with a dense gradient instead of `tf.IndexedSlices`."""
    return linear(tf.identity, tf.identity)(tf.convert_to_tensor(x))
