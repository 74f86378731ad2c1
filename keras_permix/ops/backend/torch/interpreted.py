"""What Triton's kernels read and write, counted from the addresses in Triton's interpreter."""

import contextlib
from collections import Counter, OrderedDict
from unittest import mock

import numpy as np
import torch
from triton.runtime import interpreter

from keras_permix.ops.backend.plan import Plan
from keras_permix.ops.backend.torch.triton.channel_shift import shift_kernel
from keras_permix.ops.backend.torch.triton.functions import permute
from keras_permix.ops.backend.windows import SECTOR

PACKAGES = ("triton", "torch")
LANES = 32  # that ask at once
CACHE = 48 * 1024 // SECTOR  # sectors: a quarter of an A100's L1 cache


def count_sectors(steps, group_size, shape, dtype):
    """Permute zeros, and lead a gradient back.

    Args:
        steps: The shift of every channel.
        group_size: 1, or 2 for pairs.
        shape: (samples, tokens, channels).
        dtype: "float32", "float16" or "bfloat16".

    Returns:
        What was counted forward, and what backward: sectors of memory, a `Counter` with the keys
        "asked", by loads of 32 values each, "loaded", which a cache of the program did not hold,
        and "stored", by 32 values at a time.

    Raises:
        RuntimeError: unless Triton interprets, TRITON_INTERPRET=1.
    """
    if not isinstance(shift_kernel, interpreter.InterpretedFunction):
        raise RuntimeError("Triton must interpret kernels: TRITON_INTERPRET=1.")
    x = torch.zeros(shape, dtype=getattr(torch, dtype), requires_grad=True)
    with _counted() as forward:
        out = permute(x, Plan(tuple(steps), group_size).at(shape[1]))
    with _counted() as backward:
        out.backward(torch.zeros_like(out))
    return forward, backward


@contextlib.contextmanager
def _counted():
    builder, sectors, cache = interpreter.interpreter_builder, Counter(), OrderedDict()
    load, store, start = (
        builder.create_masked_load,
        builder.create_masked_store,
        builder.set_grid_idx,
    )

    def counted_load(pointers, mask, *rest):
        for request in _requests(pointers, mask):
            sectors["asked"] += len(request)
            sectors["loaded"] += sum(_is_new(sector, cache) for sector in request)
        return load(pointers, mask, *rest)

    def counted_store(pointers, value, mask, *rest):
        sectors["stored"] += sum(map(len, _requests(pointers, mask)))
        return store(pointers, value, mask, *rest)

    def start_program(*index):
        cache.clear()
        start(*index)

    replaced = dict(create_masked_load=counted_load, create_masked_store=counted_store)
    with mock.patch.multiple(builder, **replaced, set_grid_idx=start_program):
        yield sectors


def _requests(pointers, mask):
    """The sectors that each 32 lanes touch, row by row of a block, as a warp would."""
    sectors, wanted = pointers.data.ravel().astype("int64") // SECTOR, mask.data.ravel() != 0
    for at in range(0, sectors.size, LANES):
        lanes = slice(at, at + LANES)
        yield np.unique(sectors[lanes][wanted[lanes]]).tolist()


def _is_new(sector, cache):
    """Whether a cache, which forgets what is longest unused, did not hold a sector; it does now."""
    new = sector not in cache
    cache[sector] = True
    cache.move_to_end(sector)
    if len(cache) > CACHE:
        cache.popitem(last=False)
    return new
