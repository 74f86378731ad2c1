"""Which GPUs the kernels of Triton are for, by what PyTorch says of a device."""

import functools
import os
import shutil
import sysconfig
from pathlib import Path

import torch

from keras_permix.ops.backend.torch.tracing import transformed

COMPILERS = ("gcc", "clang")
CAPABILITY = (8, 0)  # the least that the kernels are compiled for ahead of time, by tests


def limit(call):
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
    """What Triton compiles its own launcher with, and does not find here, or None."""
    if not (os.environ.get("CC") or any(map(shutil.which, COMPILERS))):
        return f"Triton needs a C compiler, and there is neither CC nor {' nor '.join(COMPILERS)}"
    header = Path(sysconfig.get_path("include"), "Python.h")
    if not header.is_file():
        return f"Triton needs the headers of Python, and there is no {header}"
    return None
