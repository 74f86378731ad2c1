"""The device that PyTorch runs on: its name, its clock, and how exact its products are."""

import contextlib
from time import perf_counter

import keras
import torch


def chip(number=0):
    """The name of an accelerator, or "" where there is none."""
    return torch.cuda.get_device_name(number) if torch.cuda.is_available() else ""


def seconds(call):
    """How long a call takes: by events on a GPU, so that no waiting of this process is in it.

    Which device that is, is where Keras makes tensors now.
    """
    place = keras.ops.zeros(1).device
    if place.type != "cuda":
        start = perf_counter()
        call()
        return perf_counter() - start
    with torch.cuda.device(place):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        call()
        end.record()
        end.synchronize()
    return start.elapsed_time(end) / 1e3


def peak_bytes(call, number):
    """Memory of a GPU at its peak during a call, above what was held before it."""
    torch.cuda.reset_peak_memory_stats(number)
    before = torch.cuda.memory_allocated(number)
    call()
    torch.cuda.synchronize(number)
    return torch.cuda.max_memory_allocated(number) - before


@contextlib.contextmanager
def full_precision():
    """Products of float32 are exact to float32 within, and no TF32."""
    before = torch.get_float32_matmul_precision(), torch.backends.cudnn.allow_tf32
    torch.set_float32_matmul_precision("highest")
    torch.backends.cudnn.allow_tf32 = False
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before[0])
        torch.backends.cudnn.allow_tf32 = before[1]
