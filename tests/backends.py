"""Compute gradients and compile functions on the running backend."""

import gc

import keras

BACKEND = keras.config.backend()
OPTIONS: dict = {}  # for JAX's compiler


def value_and_gradient(function, x, cotangent, whole=True):
    """Return `function(x)` and the gradient of `sum(function(x) * cotangent)`.

    JAX compiles the whole function. With `whole=False` it compiles each op, which is faster for
    many calls that share shapes.
    """
    if BACKEND == "jax":
        return _jax(function, x, cotangent, quick if whole else lambda function: function)
    return {"tensorflow": _tensorflow, "torch": _torch}[BACKEND](function, x, cotangent)


def compiled(function, whole=False):
    """Compile a function. With `whole`, PyTorch must compile it into one graph."""
    if BACKEND == "jax":
        import jax

        return jax.jit(function, compiler_options=OPTIONS)
    if BACKEND == "tensorflow":
        import tensorflow as tf

        return tf.function(function, jit_compile=True)
    import torch

    return torch.compile(function, fullgraph=whole)


def quick(function):
    """Compile a function on JAX, where that takes less time than running op by op."""
    return compiled(function) if BACKEND == "jax" else function


def keep_compiled(folder):
    """Cache programs that JAX compiles in `folder`. The files survive `forget_compiled`."""
    if BACKEND == "jax":
        import jax
        from jax.experimental.compilation_cache import compilation_cache

        jax.config.update("jax_compilation_cache_dir", str(folder))
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
        compilation_cache.reset_cache()  # otherwise JAX ignores the new folder


def forget_compiled():
    """Free compiled functions, which JAX and PyTorch keep until the process ends."""
    if BACKEND == "jax":
        import jax

        jax.clear_caches()
    if BACKEND == "torch":
        import torch

        torch.compiler.reset()
    gc.collect()


def _jax(function, x, cotangent, compiled):
    import jax

    @compiled
    def both(x):
        value, pull = jax.vjp(function, x)
        return value, pull(keras.ops.convert_to_tensor(cotangent, value.dtype))[0]

    return both(keras.ops.convert_to_tensor(x))


def _tensorflow(function, x, cotangent):
    import tensorflow as tf

    x = keras.ops.convert_to_tensor(x)
    with tf.GradientTape() as tape:
        tape.watch(x)
        value = function(x)
    cotangent = keras.ops.convert_to_tensor(cotangent, value.dtype)
    return value, tape.gradient(value, x, output_gradients=cotangent)


def _torch(function, x, cotangent):
    import torch

    x = keras.ops.convert_to_tensor(x).clone().requires_grad_()
    value = function(x)
    cotangent = keras.ops.convert_to_tensor(cotangent, value.dtype)
    return value.detach(), torch.autograd.grad(value, x, cotangent)[0]
