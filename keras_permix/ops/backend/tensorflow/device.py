"""The device that TensorFlow runs on: its name, its clock, and how exact its products are."""

import contextlib
from time import perf_counter

import tensorflow as tf


def chip():
    """The name of the accelerator, or "" where there is none."""
    gpus = tf.config.list_physical_devices("GPU")
    return tf.config.experimental.get_device_details(gpus[0])["device_name"] if gpus else ""


def seconds(call):
    """How long a call takes, which waits for its results itself."""
    start = perf_counter()
    call()
    return perf_counter() - start


@contextlib.contextmanager
def full_precision():
    """Products of float32 are exact to float32 within, and no TF32."""
    before = tf.config.experimental.tensor_float_32_execution_enabled()
    tf.config.experimental.enable_tensor_float_32_execution(False)
    try:
        yield
    finally:
        tf.config.experimental.enable_tensor_float_32_execution(before)
