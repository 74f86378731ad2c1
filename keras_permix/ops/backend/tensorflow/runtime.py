"""Handle devices, tracing, compilation, run-time checks and timers in TensorFlow."""

import contextlib
from functools import partial
from time import perf_counter

import tensorflow as tf

from keras_permix.ops.backend.plan import Hardware


def has_data(x):
    """Return whether `x` has values, on any device."""
    return tf.is_tensor(x) and hasattr(x, "numpy")


def require(x, holds, message, size):
    """Return `x`, or raise an error with the message and the size when the graph runs."""
    with tf.control_dependencies([tf.debugging.Assert(holds, [message, size])]):
        # XLA omits assertions, but rejects a reshape to one token too few.
        batch, tokens, *others = tf.unstack(tf.shape(x))
        tokens -= tf.cast(tf.logical_not(holds), tokens.dtype)
        checked = tf.reshape(x, (batch, tokens, *others))
        checked.set_shape(x.shape)
        return checked


def compiled(function):
    """Return `function` compiled by XLA for each shape, even if the caller is not compiled.

    Without compilation, a sorting network would be slower than a sort. A partial avoids a false
    warning: TensorFlow counts the traces of a function by its code, which all plans share.
    """
    return tf.function(partial(function), jit_compile=True, autograph=False, reduce_retracing=False)


def make_runners(function, x, weights):
    """Return a forward call, and a call with gradients for `x` and the weights."""

    @tf.function(jit_compile=True)
    def both(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            result = function(x)
        return [result, *tape.gradient(result, [x, *weights], output_gradients=result)]

    forward = tf.function(lambda x: [function(x)], jit_compile=True)
    return lambda: forward(x), lambda: both(x)


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
    """Return the peak memory of a call on a GPU, above that before it; `None` on a CPU."""
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
    """Compute products of float32 in float32 within the context, without TF32."""
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
    """Return the sizes of `x`, with None for unknown sizes."""
    return tuple(x.shape)


def platform(x):
    """Return the platform of a call of `x`: "cpu", "gpu", "tpu", or "unknown".

    This is the device of `x`, which `at_home` selects. While tracing, it is unknown unless the
    process has a single kind of device or the device is set.
    """
    kinds = {device.device_type for device in tf.config.list_logical_devices()}
    if len(kinds) == 1:
        return kinds.pop().lower()
    device = getattr(x, "device", None) or ""
    return device.rpartition("device:")[2].partition(":")[0].lower() or "unknown"


def at_home(x):
    """Return a context that uses the device of `x` instead of the first accelerator."""
    return tf.device(x.device) if x.device else contextlib.nullcontext()
