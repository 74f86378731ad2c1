"""List the implementations for PyTorch."""

import os

from keras_permix.ops.backend.plan import SORTING, Implementation
from keras_permix.ops.backend.torch import runtime
from keras_permix.ops.backend.torch.exchange import max_exchange
from keras_permix.ops.backend.torch.permute import permute, permute_by_numpy
from keras_permix.ops.reference import ema

TRITON = dict(
    # Triton's interpreter, which tests enable, runs on CPU tensors.
    devices=("cuda", "cpu") if os.environ.get("TRITON_INTERPRET") == "1" else ("cuda",),
    requires="triton",
    dtypes=("float16", "bfloat16", "float32"),
    masks=True,
    ragged=True,
    exported=False,
    limit=runtime.limit_of_triton,
)
NUMPY = dict(
    devices=("cpu",),
    dtypes=("float16", "bfloat16", "float32", "int8", "int16", "int32", "uint8"),
    exported=False,
)
ANY = dict(masks=True, ragged=True, dynamic=True, limit=runtime.in_forward_mode)


def permute_by_triton(x, mask, plan):
    from keras_permix.ops.backend.torch.triton import functions  # requires Triton

    return functions.permute(x, mask, plan)


def sorting(op):
    """Yield the implementations of a sorting op; NumPy sorts faster than PyTorch on CPUs."""
    # For larger groups, shared memory of some GPUs is too small.
    yield Implementation(op, "triton", permute_by_triton, max_group=16384, **TRITON)
    yield Implementation(op, "native", permute, group_sizes=(1, 2), **ANY)
    yield Implementation(op, "numpy", permute_by_numpy, **NUMPY, **ANY)
    yield Implementation(op, "sort", permute, **ANY)


IMPLEMENTATIONS = (
    Implementation("channel_shift", "triton", permute_by_triton, **TRITON),
    Implementation("channel_shift", "native", permute, **ANY),
    *(each for op in SORTING for each in sorting(op)),
    Implementation("damped_ema", "chunked", ema.chunked, masks=True, dynamic=True),
    Implementation("damped_ema", "fft", ema.fft, masks=True, dynamic=True),
    Implementation("max_exchange", "native", max_exchange, **ANY),
)
