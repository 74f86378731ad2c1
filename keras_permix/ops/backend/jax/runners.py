"""A function or a layer as a training step on JAX runs it: see `bench.runners`."""

import jax
import keras


def make(function, x, weights):
    """A forward call, and one with gradients for `x` and for the weights."""

    def call(x, weights):
        if not isinstance(function, keras.Layer):
            return function(x)
        fixed = [variable.value for variable in function.non_trainable_variables]
        return function.stateless_call(weights, fixed, x)[0]

    def both(x, weights, cotangent):
        result, pull = jax.vjp(call, x, weights)
        for_x, for_weights = pull(cotangent)
        return [result, for_x, *for_weights]

    forward, both = jax.jit(lambda *arguments: [call(*arguments)]), jax.jit(both)
    cotangent = jax.numpy.ones_like(call(x, weights))
    return lambda: forward(x, weights), lambda: both(x, weights, cotangent)
