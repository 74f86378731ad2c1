"""Sort groups of tokens of PyTorch tensors by NumPy.

NumPy sorts contiguous integers in vector registers, many times faster than PyTorch. Floats become
integers of the same order. If positions are needed, an integer of twice the width holds the value
in its high bits and the token in its low bits, which makes the sort stable.
"""

import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import torch

KEYS = {torch.float32: torch.int32, torch.float16: torch.int16, torch.bfloat16: torch.int16}
WIDER = {torch.int16: torch.int32, torch.int32: torch.int64}
HIGH, LOW = (1, 0) if sys.byteorder == "little" else (0, 1)
WORTH_A_THREAD = 1 << 18  # values


def sort_in_numpy(x, lengths, plan, with_residuals):
    key, packed = to_key(x.detach()), with_residuals or plan.aligned
    narrow = key.dtype
    if packed and x.shape[1] - 1 > torch.iinfo(narrow).max:
        key = key.to(WIDER[narrow])  # to hold the tokens below
    # -0.0, whose key is -1, must equal 0.0; the few tensors with -0.0 gather values afterwards.
    minus_zero = packed and x.is_floating_point() and bool((key == -1).any())
    if minus_zero:
        key = key.masked_fill(key == -1, 0)
    keys = _pack(key) if packed else _copy(key.transpose(1, 2))
    _sort_(keys, lengths, plan)
    halves = keys.view(key.dtype).unflatten(2, (-1, 2)) if packed else keys.unsqueeze(3)
    if plan.aligned:
        halves = _align(keys, halves[:, 0, :, LOW]).view(key.dtype).unflatten(2, (-1, 2))
    source = None
    if with_residuals or minus_zero:
        source = _tokens_first(halves[..., LOW], counting_to(x.shape[1]))
    if minus_zero:
        return x.gather(1, source.long()), source
    return from_key(_tokens_first(halves[..., HIGH if packed else 0], narrow), x.dtype), source


def _copy(key):
    """Return a contiguous copy, since the keys of integers are the values of the caller."""
    return key.clone(memory_format=torch.contiguous_format)


def _pack(key):
    """Return integers of twice the width, (batch, channels, tokens), with keys above tokens."""
    key = key.transpose(1, 2)
    packed = torch.empty((*key.shape, 2), dtype=key.dtype)
    packed[..., HIGH] = key
    packed[..., LOW] = torch.arange(key.shape[2], dtype=key.dtype)
    return packed.view(WIDER[key.dtype]).squeeze(-1)


def _sort_(keys, lengths, plan):
    flip = None
    if plan.descending is not None:
        flip = -torch.tensor(plan.descending).to(keys.dtype)[:, None]
        keys ^= flip
    wanted = -(-keys.numel() // WORTH_A_THREAD)
    threads = max(1, min(torch.get_num_threads(), wanted, keys.shape[0] * keys.shape[1]))
    if lengths is None:
        rows = np.array_split(keys.flatten(0, 1).numpy(), threads)
    else:
        rows = [rows[:, :n] for rows, n in zip(keys.numpy(), lengths, strict=True)]
    size = plan.group_size or keys.shape[2]
    if threads == 1:
        for part in rows:
            _sort_rows_(part, size)
    else:
        with ThreadPoolExecutor(threads) as pool:
            list(pool.map(_sort_rows_, rows, [size] * len(rows)))
    if flip is not None:
        keys ^= flip


def _sort_rows_(rows, size):
    """Sort every row in groups of `size`; the last group may be shorter."""
    whole = rows.shape[1] // size * size
    rows[:, :whole].reshape(len(rows), -1, size).sort()  # a view, because only the last axis is cut
    rows[:, whole:].sort()


def _align(keys, position):
    """Give the groups of every channel the ranks of channel 0, whose sources are `position`."""
    rank = torch.empty(position.shape, dtype=torch.int64)
    rank.scatter_(1, position.long(), torch.arange(position.shape[1]).expand_as(rank))
    return keys.gather(2, rank[:, None].expand_as(keys))


def _tokens_first(x, dtype):
    """Return a contiguous copy (batch, tokens, channels) of (batch, channels, tokens)."""
    return torch.empty((x.shape[0], x.shape[2], x.shape[1]), dtype=dtype).copy_(x.transpose(1, 2))


def counting_to(tokens):
    """Return the smallest dtype that holds 0 to `tokens` - 1; for an unknown number, int32."""
    if not isinstance(tokens, int):
        return torch.int32
    types = (torch.uint8, torch.int16, torch.int32)
    return next(dtype for dtype in types if tokens - 1 <= torch.iinfo(dtype).max)


def to_key(x):
    """Return signed integers of 16 or 32 bits in the order of the values."""
    if x.dtype in KEYS:
        return _mirror_negatives(x.contiguous().view(KEYS[x.dtype]))
    return x.to(torch.int16) if x.element_size() == 1 else x


def from_key(key, dtype):
    return _mirror_negatives(key).view(dtype) if dtype in KEYS else key.to(dtype)


def _mirror_negatives(bits):
    """Reverse the order of the bits of negative floats; the mapping is its own inverse."""
    sign = bits >> (8 * bits.element_size() - 1)
    return sign.bitwise_and_(torch.iinfo(bits.dtype).max).bitwise_xor_(bits)
