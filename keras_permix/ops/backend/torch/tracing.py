"""Whether PyTorch runs a call or writes it down."""

import torch
from torch._subclasses.fake_tensor import FakeTensor

from keras_permix.ops.dispatch.rows import Hardware


def compiling():
    return torch.compiler.is_compiling() or torch.jit.is_tracing()


def exporting():
    return torch.compiler.is_exporting() or torch.jit.is_tracing()


def hardware(x):
    """What a call of `x` runs on: one device, since every process has its own."""
    platform = x.device.type if compiling() or has_data(x) else "meta"
    return Hardware(platform, chip=x.device.index)


def recorded(x):
    """Whether a CUDA graph is being recorded on the GPU of `x`, to be replayed at any time."""
    return x.is_cuda and torch.cuda.is_current_stream_capturing()


def transformed(call):
    """What keeps a call from kernels whose gradients cannot be transformed, and lead back alone."""
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
