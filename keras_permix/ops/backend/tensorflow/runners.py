"""A function or a layer as a training step on TensorFlow runs it: see `bench.runners`."""

import tensorflow as tf


def make(function, x, weights):
    """A forward call, and one with gradients for `x` and for the weights."""

    @tf.function(jit_compile=True)
    def both(x, cotangent):
        with tf.GradientTape() as tape:
            tape.watch(x)
            result = function(x)
        return [result, *tape.gradient(result, [x, *weights], output_gradients=cotangent)]

    forward = tf.function(lambda x: [function(x)], jit_compile=True)
    # An argument, since XLA would compute the gradient of a constant while compiling.
    cotangent = tf.ones_like(function(x))
    return lambda: forward(x), lambda: both(x, cotangent)
