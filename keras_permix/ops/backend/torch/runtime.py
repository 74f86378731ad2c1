"""Devices, tracing, transforms and timers in PyTorch."""

import contextlib
import functools
import os
import shutil
import sysconfig
from pathlib import Path
from time import perf_counter

import keras
import torch
from torch._subclasses.fake_tensor import FakeTensor

from keras_permix.ops.backend.plan import Hardware


def compiling():
    return torch.compiler.is_compiling() or torch.jit.is_tracing()


def exporting():
    return torch.compiler.is_exporting() or torch.jit.is_tracing()


def hardware(x):
    """Describe the device of `x`: one, since every process has a device."""
    platform = x.device.type if compiling() or has_data(x) else "meta"
    return Hardware(platform, chip=x.device.index)


def recorded(x):
    """Whether a CUDA graph is being recorded on the GPU of `x`, to be replayed at any time."""
    return x.is_cuda and torch.cuda.is_current_stream_capturing()


def transformed(call):
    """Return why kernels without forward derivatives and transforms cannot serve, or None."""
    if compiling():
        return None
    if torch.autograd.forward_ad._current_level >= 0:
        return "it has no derivatives forward"
    if torch._C._functorch.peek_interpreter_stack() is None:
        return None
    return "it does not serve the transforms of `torch.func`"


def shape(x):
    """The sizes of `x`, of which a compiler may have some as symbols."""
    return tuple(x.shape)


def has_data(x):
    """Whether `x` holds numbers now, on whatever device."""
    return not (compiling() or x.is_meta or isinstance(x, FakeTensor))


def at_hand(x):
    """Whether Python and NumPy can read the numbers in `x` now."""
    return has_data(x) and x.is_cpu


def require(x, holds, message, size):
    """`x`, or an error for the sizes that are traced; what is exported checks no others."""
    if not bool(holds):
        raise ValueError(f"{message}{int(size)}")
    return x


def fold(info, dims, *tensors):
    """Make the axis that is mapped over part of the batch, of which no sample knows another."""

    def fold_one(tensor, dim):
        if tensor is None:
            return None
        if dim is None:
            tensor = tensor.expand(info.batch_size, *tensor.shape)
        else:
            tensor = tensor.movedim(dim, 0)
        return tensor.flatten(0, 1)

    def unfold(tensor):
        return tensor.unflatten(0, (info.batch_size, -1))

    return [fold_one(*pair) for pair in zip(tensors, dims, strict=False)], unfold


COMPILERS = ("gcc", "clang")
CAPABILITY = (8, 0)  # the least that the kernels are compiled for ahead of time, by tests


def limit_of_triton(call):
    """Why the kernels cannot serve a call, or None if they can."""
    objection = objection_of(call.hardware.chip) if call.hardware.platform == "cuda" else None
    return objection or transformed(call)


@torch.compiler.assume_constant_result  # a compiler asks it while tracing
def objection_of(number):
    """Why the kernels cannot run on the GPU of a number, or None if they can."""
    return _looked_up(number)


@functools.cache
def _looked_up(number):
    name = torch.cuda.get_device_name(number)
    if torch.version.hip:
        return f"it needs an NVIDIA GPU, and this is: {name}"
    found = torch.cuda.get_device_capability(number)
    if found >= CAPABILITY:
        return _what_triton_lacks()
    found = ".".join(map(str, found))
    return f"it needs an NVIDIA GPU of compute capability 8.0, and this is: {name} ({found})"


def _what_triton_lacks():
    """Return what Triton lacks here to compile its launcher, or None."""
    if not (os.environ.get("CC") or any(map(shutil.which, COMPILERS))):
        return f"Triton needs a C compiler, and there is neither CC nor {' nor '.join(COMPILERS)}"
    header = Path(sysconfig.get_path("include"), "Python.h")
    if not header.is_file():
        return f"Triton needs the headers of Python, and there is no {header}"
    return None


def make_runners(function, x, weights):
    """A forward call, and one with gradients for `x` and for the weights."""
    leaf = x.clone().requires_grad_()

    def forward():
        with torch.no_grad():
            return [function(x)]

    cotangent = torch.ones_like(*forward())

    def both():
        result = function(leaf)
        gradients = torch.autograd.grad(result, [leaf, *weights], cotangent)
        return [result.detach(), *gradients]

    return forward, both


def chip(number=0):
    """Return the name of an accelerator, or "" without one."""
    return torch.cuda.get_device_name(number) if torch.cuda.is_available() else ""


def seconds(call):
    """Return the seconds that a call takes, by events on a GPU.

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
