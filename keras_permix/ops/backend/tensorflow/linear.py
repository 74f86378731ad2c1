"""Linear maps with gradients of any order, compiled, in TensorFlow.

Everything is compiled by XLA, also in a call that is not: op by op, a sorting network would be
slower than the sort it replaces.
"""

from functools import partial

import tensorflow as tf

from keras_permix.ops.reference.linear import sinkhorn_by


def compiled(function):
    """`function`, compiled by XLA for each shape.

    TensorFlow counts how often a function is traced by its code. Plans share theirs, and many of
    them, each traced once, would be warned of as one that is traced all the time; a partial is
    counted by itself.
    """
    return tf.function(partial(function), jit_compile=True, autograph=False, reduce_retracing=False)


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
