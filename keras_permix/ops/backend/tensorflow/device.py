"""The device that TensorFlow runs on: its name, its clock, and how exact its products are."""

import contextlib
from time import perf_counter

import tensorflow as tf


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
