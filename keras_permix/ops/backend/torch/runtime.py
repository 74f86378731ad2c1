"""Handle devices, tracing, transforms and timers in PyTorch."""

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
from torch.fx.experimental.symbolic_shapes import has_static_value

from keras_permix.ops.backend.plan import Hardware


def compiling():
    return torch.compiler.is_compiling() or torch.jit.is_tracing()


def exporting():
    return torch.compiler.is_exporting() or torch.jit.is_tracing()


def is_static(size):
    """Return whether a size is the same in all calls of a graph."""
    return not isinstance(size, torch.Tensor) and has_static_value(size)


def may_have_gradient(x):
    """Return whether `x` may need a derivative, which `torch.func` hides from its functions."""
    return x.requires_grad or transformed() is not None


def hardware(x):
    """Describe the device of `x`; every process uses one device."""
    platform = x.device.type if compiling() or has_data(x) else "meta"
    return Hardware(platform, chip=x.device.index)


def recorded(x):
    """Return whether a CUDA graph is being recorded on the GPU of `x`."""
    return x.is_cuda and torch.cuda.is_current_stream_capturing()


def in_forward_mode(call=None):
    """Return why functions with custom gradients cannot run, or None."""
    # `torch.compile` does not support functions that define forward derivatives.
    if compiling() or torch.autograd.forward_ad._current_level < 0:
        return None
    return "it does not support forward-mode derivatives"


def transformed():
    """Return why kernels, which lack forward derivatives and transforms, cannot run, or None."""
    if compiling() or torch._C._functorch.peek_interpreter_stack() is None:
        return in_forward_mode()
    return "it does not support the transforms of `torch.func`"


def shape(x):
    """Return the sizes of `x`, which may be symbols in a compiler."""
    return tuple(x.shape)


def has_data(x):
    """Return whether `x` has values, on any device."""
    return not (compiling() or x.is_meta or isinstance(x, FakeTensor))


def at_hand(x):
    """Return whether Python and NumPy can read the values of `x`."""
    return has_data(x) and x.is_cpu


def require(x, holds, message, size):
    """Return `x`, or raise an error for the traced sizes, the only ones that are checked."""
    if not holds:
        raise ValueError(f"{message}{int(size)}")
    return x


def fold(info, dims, *tensors):
    """Fold the mapped axis into the batch, whose samples are independent."""

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
CAPABILITY = (8, 0)  # oldest compute capability for which tests compile the kernels


def limit_of_triton(call):
    """Return why the kernels do not support a call, or None if they do."""
    objection = objection_of(call.hardware.chip) if call.hardware.platform == "cuda" else None
    return objection or transformed()


@torch.compiler.assume_constant_result  # called while compiling
def objection_of(number):
    """Return why the kernels cannot run on GPU `number`, or None if they can."""
    return _looked_up(number)


@functools.cache
def _looked_up(number):
    name = torch.cuda.get_device_name(number)
    if torch.version.hip:
        return f"it requires an NVIDIA GPU, found: {name}"
    found = torch.cuda.get_device_capability(number)
    if found >= CAPABILITY:
        return _what_triton_lacks()
    found = ".".join(map(str, found))
    return f"it requires an NVIDIA GPU of compute capability 8.0, found: {name} ({found})"


def _what_triton_lacks():
    """Return what Triton lacks to compile its launcher, or None."""
    if not (os.environ.get("CC") or any(map(shutil.which, COMPILERS))):
        return f"Triton requires a C compiler. Set CC or install one of {', '.join(COMPILERS)}"
    header = Path(sysconfig.get_path("include"), "Python.h")
    if not header.is_file():
        return f"Triton requires the headers of Python, which are not installed: {header}"
    return None


def make_runners(function, x, weights):
    """Return a forward call, and a call with gradients for `x` and the weights."""
    leaf = x.clone().requires_grad_()

    def forward():
        with torch.no_grad():
            return [function(x)]

    def both():
        result = function(leaf)
        gradients = torch.autograd.grad(result, [leaf, *weights], result.detach())
        return [result.detach(), *gradients]

    return forward, both


def chip(number=0):
    """Return the name of an accelerator, or "" without one."""
    return torch.cuda.get_device_name(number) if torch.cuda.is_available() else ""


def seconds(call):
    """Return the seconds that a call takes on Keras' current device, by events on a GPU."""
    device = keras.ops.zeros(1).device
    if device.type != "cuda":
        start = perf_counter()
        call()
        if device.type != "cpu":
            torch.accelerator.synchronize()
        return perf_counter() - start
    with torch.cuda.device(device):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        call()
        end.record()
        end.synchronize()
    return start.elapsed_time(end) / 1e3


def peak_bytes(call, number):
    """Return the peak memory of a call on a GPU by CUDA, above that before it, or `None`."""
    if not torch.cuda.is_available():
        return None
    torch.cuda.reset_peak_memory_stats(number)
    before = torch.cuda.memory_allocated(number)
    call()
    torch.cuda.synchronize(number)
    return torch.cuda.max_memory_allocated(number) - before


@contextlib.contextmanager
def full_precision():
    """Compute products of float32 in float32 within the context, without TF32."""
    before = torch.get_float32_matmul_precision(), torch.backends.cudnn.allow_tf32
    torch.set_float32_matmul_precision("highest")
    torch.backends.cudnn.allow_tf32 = False
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before[0])
        torch.backends.cudnn.allow_tf32 = before[1]
