"""What TensorFlow runs on and how: tracing, run-time checks, timers."""

import contextlib
from time import perf_counter

import tensorflow as tf


def has_data(x):
    """Whether `x` holds numbers now, on whatever device."""
    return tf.is_tensor(x) and hasattr(x, "numpy")


def require(x, holds, message, size):
    """`x`, or an error that gives the message and the size.

    XLA leaves assertions out. It compiles for known sizes, though, and refuses a reshape that does
    not fit: here one to a token too few.
    """
    with tf.control_dependencies([tf.debugging.Assert(holds, [message, size])]):
        batch, tokens, *others = tf.unstack(tf.shape(x))
        tokens -= tf.cast(tf.logical_not(holds), tokens.dtype)
        checked = tf.reshape(x, (batch, tokens, *others))
        checked.set_shape(x.shape)
        return checked


def make_runners(function, x, weights):
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


def chip(number=0):
    """The name of an accelerator, or "" where there is none."""
    gpus = tf.config.list_physical_devices("GPU")
    if not gpus:
        return ""
    return tf.config.experimental.get_device_details(gpus[number]).get("device_name", "GPU")


def seconds(call):
    """How long a call takes, until its results are there; they stay on the device."""
    start = perf_counter()
    call()
    tf.test.experimental.sync_devices()
    return perf_counter() - start


def peak_bytes(call, number):
    """Memory of a GPU at its peak during a call, above what was held before it; else `None`."""
    if not tf.config.list_physical_devices("GPU"):
        return None
    gpu = f"GPU:{number}"
    tf.config.experimental.reset_memory_stats(gpu)
    before = tf.config.experimental.get_memory_info(gpu)["current"]
    call()
    tf.test.experimental.sync_devices()
    return tf.config.experimental.get_memory_info(gpu)["peak"] - before


@contextlib.contextmanager
def full_precision():
    """Products of float32 are exact to float32 within, and no TF32."""
    before = tf.config.experimental.tensor_float_32_execution_enabled()
    tf.config.experimental.enable_tensor_float_32_execution(False)
    try:
        yield
    finally:
        tf.config.experimental.enable_tensor_float_32_execution(before)
