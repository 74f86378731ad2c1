"""Devices, tracing, compilation, run-time checks and timers in TensorFlow."""

import contextlib
from functools import partial
from time import perf_counter

import tensorflow as tf

from keras_permix.ops.backend.plan import Hardware


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


def compiled(function):
    """Return `function` compiled by XLA for each shape, also where the caller is not compiled.

    Op by op, a sorting network would be slower than the sort it replaces. A partial avoids a false
    warning: TensorFlow counts the traces of a function by its code, which all plans share.
    """
    return tf.function(partial(function), jit_compile=True, autograph=False, reduce_retracing=False)


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
    """Return the name of an accelerator, or "" without one."""
    gpus = tf.config.list_physical_devices("GPU")
    if not gpus:
        return ""
    return tf.config.experimental.get_device_details(gpus[number]).get("device_name", "GPU")


def seconds(call):
    """Return the seconds that a call takes until its results are ready on the device."""
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


def hardware(x):
    """Describe one device: a strategy divides a batch before it calls."""
    return Hardware(platform(x))


def exporting():
    return False


def shape(x):
    """Return the sizes of `x`, with None for a size that is not known."""
    return tuple(x.shape)


def platform(x):
    """Return the platform of a call of `x`: "cpu", "gpu", "tpu", or "unknown".

    That is where `x` lies, as `at_home` sees to. While tracing nothing lies anywhere yet, unless
    the process has a single kind of device or the device was named.
    """
    kinds = {device.device_type for device in tf.config.list_logical_devices()}
    if len(kinds) == 1:
        return kinds.pop().lower()
    device = getattr(x, "device", None) or ""
    return device.rpartition("device:")[2].partition(":")[0].lower() or "unknown"


def at_home(x):
    """Run what follows where `x` lies. TensorFlow's own choice would be the first accelerator."""
    return tf.device(x.device or None)
