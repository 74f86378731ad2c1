"""What is known of steps before a kernel starts, on the device where it will read them."""

from functools import lru_cache
from typing import Any, NamedTuple

import torch

from keras_permix.ops.backend.windows import Window, window_for


class Reads(NamedTuple):
    """How many tokens further on every channel reads, and what programs hold meanwhile."""

    window: Window
    offsets: Any = None  # (channels,), int32 from 0 to tokens - 1, or None for no shift
    starts: Any = None  # (tiles of channels,), int32, where the window is an arc


@lru_cache(maxsize=256)
def reads_for(steps, tokens, itemsize, device, back=False):
    """What a shift by `steps`, a tuple, reads; or its inverse, if it leads back."""
    reads = tuple((step if back else -step) % tokens for step in steps)
    window = window_for(reads, tokens, itemsize)
    starts = table(window.starts, torch.int32, device) if window.starts else None
    return Reads(window, table(reads, torch.int32, device), starts)


@lru_cache(maxsize=256)
def table(values, dtype, device):
    """A tuple of integers as a tensor."""
    with torch.inference_mode(False):
        return torch.tensor(values, dtype=dtype, device=device)
