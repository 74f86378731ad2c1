"""Sorting in groups along the tokens, in PyTorch.

Both ways take (x, plan, traced) and return the sorted tensor and, if `traced`, the token of `x`
that each sample came from, in the smallest integer type there is.
"""

import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import torch
from torch.nn.functional import pad

from keras_permix.ops.backend.plan import Plan

WIDER = {torch.int16: torch.int32, torch.int32: torch.int64}
KEYS = {torch.float32: torch.int32, torch.float16: torch.int16, torch.bfloat16: torch.int16}
HIGH, LOW = (1, 0) if sys.byteorder == "little" else (0, 1)
WORTH_A_THREAD = 1 << 18  # samples


def by_torch(x, plan, traced):
    runs = x.unflatten(1, (-1, plan.group_size))
    if traced or plan.aligned:
        out, order = torch.sort(runs, dim=2, stable=True)
    else:
        out, order = torch.sort(runs, dim=2)  # which, unlike the stable sort, exports to ONNX
    if plan.aligned:
        rank = torch.argsort(order[..., :1], dim=2).expand_as(order)
        out, order = out.gather(2, rank), order.gather(2, rank)
    if plan.descending is not None:
        turn = torch.tensor(plan.descending, device=x.device)
        out, order = (torch.where(turn, t.flip(2), t) for t in (out, order))
    if not traced:
        return out.flatten(1, 2), None
    start = torch.arange(0, x.shape[1], plan.group_size, device=x.device)[:, None, None]
    return out.flatten(1, 2), (order + start).flatten(1, 2).to(_small_integer(x.shape[1]))


def by_numpy(x, plan, traced):
    """NumPy sorts contiguous integers in vector registers, many times faster than PyTorch.

    Floats become integers of the same order. Where places matter, an integer of twice the width
    holds the value above its place, and so a sort that is not stable becomes so. To `torch.compile`
    all of it is one opaque op.
    """
    if not torch.compiler.is_compiling():
        return _by_numpy(x, plan, traced)
    options = plan.group_size, plan.aligned, plan.descending
    out, source = _opaque_by_numpy(x, *options, traced)
    return out, source if traced else None


@torch.library.custom_op("keras_permix::sort_by_numpy", mutates_args=())
def _opaque_by_numpy(
    x: torch.Tensor,
    group_size: int,
    aligned: bool,
    descending: Sequence[bool] | None,
    traced: bool,
) -> tuple[torch.Tensor, torch.Tensor]:
    out, source = _by_numpy(x, Plan(None, group_size, aligned, descending), traced)
    return out, source if traced else x.new_empty(0)


@_opaque_by_numpy.register_fake
def _(x, group_size, aligned, descending, traced):
    source = x.new_empty(x.shape, dtype=_small_integer(x.shape[1])) if traced else x.new_empty(0)
    return torch.empty_like(x, memory_format=torch.contiguous_format), source


def _by_numpy(x, plan, traced):
    key, packed = _to_key(x), traced or plan.aligned
    narrow = key.dtype
    if packed and plan.group_size - 1 > torch.iinfo(narrow).max:
        key = key.to(WIDER[narrow])  # else places in the group would not fit below
    # -0.0, whose key is -1, is to equal 0.0; the few tensors that have one fetch it afterwards.
    minus_zero = packed and x.is_floating_point() and bool((key == -1).any())
    if minus_zero:
        key = key.masked_fill(key == -1, 0)
    keys = _sort(_pack(key, plan) if packed else _fill_up(key, plan), plan)
    if plan.aligned:
        keys = _align(keys, plan)
    halves = keys.view(key.dtype).unflatten(2, (-1, 2)) if packed else keys.unsqueeze(3)
    source = _sources(halves[..., LOW], x.shape[1], plan) if traced or minus_zero else None
    if minus_zero:
        return x.gather(1, source.long()), source
    value = halves[..., HIGH if packed else 0]
    return _from_key(_tokens_first(value, x.shape[1], narrow), x.dtype), source


def _fill_up(key, plan):
    """Channels before tokens, (batch, channels, tokens), filled up to whole groups."""
    missing = -key.shape[1] % plan.group_size
    return pad(key.transpose(1, 2), (0, missing), value=torch.iinfo(key.dtype).max).contiguous()


def _pack(key, plan):
    """Integers of twice the width: the key above its place in the group."""
    key = _fill_up(key, plan) if key.shape[1] % plan.group_size else key.transpose(1, 2)
    packed = torch.empty((*key.shape, 2), dtype=key.dtype)
    packed[..., HIGH] = key
    packed[..., LOW] = torch.arange(key.shape[2], dtype=key.dtype) % plan.group_size
    return packed.view(WIDER[key.dtype]).squeeze(-1)


def _sort(keys, plan):
    turn = None
    if plan.descending is not None:
        turn = -torch.tensor(plan.descending).to(keys.dtype)[:, None]
        keys ^= turn
    runs = keys.view(-1, plan.group_size).numpy()
    threads = min(torch.get_num_threads(), -(-runs.size // WORTH_A_THREAD))
    if threads > 1:
        with ThreadPoolExecutor(threads) as pool:
            list(pool.map(np.ndarray.sort, np.array_split(runs, threads)))
    else:
        runs.sort()
    return keys if turn is None else keys.bitwise_xor_(turn)


def _align(keys, plan):
    """Give the groups of every channel the ranks of those of channel 0."""
    runs = keys.unflatten(2, (-1, plan.group_size))
    place = runs[:, :1] & ((1 << (4 * keys.element_size())) - 1)
    rank = torch.argsort(place, dim=3).expand_as(runs)
    return runs.gather(3, rank).flatten(2, 3)


def _tokens_first(x, tokens, dtype):
    """A contiguous copy, (batch, tokens, channels), of channels before tokens."""
    x = x[:, :, :tokens].transpose(1, 2)
    return torch.empty(x.shape, dtype=dtype).copy_(x)


def _sources(place, tokens, plan):
    """Places in groups as tokens of the sample."""
    size = _small_integer(tokens)
    if plan.group_size >= tokens:
        return _tokens_first(place, tokens, size)
    start = torch.arange(tokens) // plan.group_size * plan.group_size
    return _tokens_first(place, tokens, torch.int32).add_(start[:, None]).to(size)


def _to_key(x):
    """Signed integers in the order of the values, of 16 or 32 bits."""
    if x.dtype in KEYS:
        return _mirror_negatives(x.contiguous().view(KEYS[x.dtype]))
    return x.to(torch.int16) if x.element_size() == 1 else x


def _from_key(key, dtype):
    return _mirror_negatives(key).view(dtype) if dtype in KEYS else key.to(dtype)


def _mirror_negatives(bits):
    """Negative floats ascend as their integers descend; the mapping is its own inverse."""
    sign = bits >> (8 * bits.element_size() - 1)
    return sign.bitwise_and_(torch.iinfo(bits.dtype).max).bitwise_xor_(bits)


def _small_integer(size):
    """The smallest type that counts to `size`."""
    types = (torch.uint8, torch.int16, torch.int32)
    return next(dtype for dtype in types if size - 1 <= torch.iinfo(dtype).max)
