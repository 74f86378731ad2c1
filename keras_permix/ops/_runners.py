"""Run a function of one tensor as a training step would: compiled where the backend compiles."""

import keras


def runners(function, x):
    """Make two calls to time, each of which returns when the result is there.

    Args:
        function: A function of one tensor.
        x: What it is called with.

    Returns:
        `(forward, forward_and_backward)`; both take nothing. The first returns a list of the
        result, the second one of the result and the gradient of its sum: both, since a compiler
        leaves out what nobody asks for.
    """
    make = {"jax": _jax, "tensorflow": _tensorflow, "torch": _torch}[keras.config.backend()]
    return make(function, keras.ops.convert_to_tensor(x))


def _jax(function, x):
    import jax

    def both(x, cotangent):
        result, pull = jax.vjp(function, x)
        return [result, pull(cotangent)[0]]

    forward, both = jax.jit(lambda x: [function(x)]), jax.jit(both)
    cotangent = jax.numpy.ones_like(x)
    return lambda: jax.block_until_ready(forward(x)), lambda: jax.block_until_ready(
        both(x, cotangent)
    )


def _tensorflow(function, x):
    import tensorflow as tf

    @tf.function(jit_compile=True)
    def both(x, cotangent):
        with tf.GradientTape() as tape:
            tape.watch(x)
            result = function(x)
        return [result, tape.gradient(result, x, output_gradients=cotangent)]

    forward = tf.function(lambda x: [function(x)], jit_compile=True)
    # An argument, since XLA would compute the gradient of a constant while compiling.
    cotangent = tf.ones_like(x)
    return lambda: _numpy(forward(x)), lambda: _numpy(both(x, cotangent))


def _numpy(tensors):
    """Wait for the results, which share memory with the arrays on a CPU."""
    return [tensor.numpy() for tensor in tensors]


def _torch(function, x):
    import torch

    cotangent = torch.ones_like(x)
    leaf = x.clone().requires_grad_()

    def forward():
        with torch.no_grad():
            return _done([function(x)])

    def both():
        result = function(leaf)
        return _done([result.detach(), torch.autograd.grad(result, leaf, cotangent)[0]])

    return forward, both


def _done(results):
    """Wait for a GPU; a CPU has finished."""
    if results[0].is_cuda:
        import torch

        torch.cuda.synchronize()
    return results
