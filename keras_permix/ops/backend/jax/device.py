"""The device that JAX runs on: its name, its clock, and how exact its products are."""

from time import perf_counter

import jax


def chip(number=0):
    """The name of an accelerator, or "" where there is none."""
    device = jax.devices()[number]
    return "" if device.platform == "cpu" else device.device_kind


def seconds(call):
    """How long a call takes, until its results are there."""
    start = perf_counter()
    jax.block_until_ready(call())
    return perf_counter() - start


def peak_bytes(call, number):
    """`None`: JAX tells the peak since the process began, and not that of a call."""


def full_precision():
    """Products of float32 are exact to float32 within: no TF32, and no bfloat16 on a TPU."""
    return jax.default_matmul_precision("highest")
