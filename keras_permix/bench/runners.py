"""Run a function or a layer as a training step would: compiled where the backend compiles."""

import keras


def runners(function, x):
    """Make two calls to time, each of which returns when the result is there.

    Args:
        function: A function of one tensor, or a built layer.
        x: What it is called with.

    Returns:
        `(forward, forward_and_backward)`; both take nothing. The first returns a list of the
        result, the second one of the result and the gradients of its sum, for `x` and then for
        the weights of a layer: all, since a compiler leaves out what nobody asks for.
    """
    make = {"jax": _jax, "tensorflow": _tensorflow, "torch": _torch}[keras.config.backend()]
    weights = getattr(function, "trainable_variables", [])
    return make(function, keras.ops.convert_to_tensor(x), [weight.value for weight in weights])


def _jax(function, x, weights):
    import jax

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
    return lambda: jax.block_until_ready(forward(x, weights)), lambda: jax.block_until_ready(
        both(x, weights, cotangent)
    )


def _tensorflow(function, x, weights):
    import tensorflow as tf

    @tf.function(jit_compile=True)
    def both(x, cotangent):
        with tf.GradientTape() as tape:
            tape.watch(x)
            result = function(x)
        return [result, *tape.gradient(result, [x, *weights], output_gradients=cotangent)]

    forward = tf.function(lambda x: [function(x)], jit_compile=True)
    # An argument, since XLA would compute the gradient of a constant while compiling.
    cotangent = tf.ones_like(function(x))
    return lambda: _numpy(forward(x)), lambda: _numpy(both(x, cotangent))


def _numpy(tensors):
    """Wait for the results, which share memory with the arrays on a CPU."""
    return [tensor.numpy() for tensor in tensors]


def _torch(function, x, weights):
    import torch

    leaf = x.clone().requires_grad_()

    def forward():
        with torch.no_grad():
            return _done([function(x)])

    cotangent = torch.ones_like(*forward())

    def both():
        result = function(leaf)
        gradients = torch.autograd.grad(result, [leaf, *weights], cotangent)
        return _done([result.detach(), *gradients])

    return forward, both


def _done(results):
    """Wait for a GPU; a CPU has finished."""
    if results[0].is_cuda:
        import torch

        torch.cuda.synchronize()
    return results
