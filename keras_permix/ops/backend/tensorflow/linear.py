"""Define linear maps with gradients of any order, and Sinkhorn iterations, in TensorFlow."""

import tensorflow as tf

from keras_permix.ops.reference.linear import sinkhorn_by


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


@sinkhorn_by
def sinkhorn(function, value, times):
    """Iterate in a loop with a static number of passes, which XLA requires for gradients."""
    shape = value.shape

    def step(value):
        return (tf.ensure_shape(function(value), shape),)

    return tf.while_loop(lambda _: True, step, (value,), maximum_iterations=times)[0]
