"""Sorting in groups along the tokens, in PyTorch.

Both ways take (x, lengths, plan, traced) and sort the first `lengths` tokens of every sample, or
all of them, in groups of which the last may be short. They return the sorted tensor and, if
`traced`, the token of `x` that each value came from, in the smallest integer type there is.
"""

import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import torch
from torch.fx.experimental.symbolic_shapes import statically_known_true
from torch.nn.functional import pad

from keras_permix.ops.backend.plan import Plan
from keras_permix.ops.backend.torch.keys import WIDER, from_key, small_integer, to_key
from keras_permix.ops.backend.torch.tracing import compiling

HIGH, LOW = (1, 0) if sys.byteorder == "little" else (0, 1)
WORTH_A_THREAD = 1 << 18  # values


def by_torch(x, lengths, plan, traced):
    tokens = x.shape[1]
    size = tokens if plan.group_size is None else plan.group_size
    if isinstance(lengths, tuple):
        lengths = torch.tensor(lengths)[:, None, None]
    runs = _fill_up(x, lengths, size).unflatten(1, (-1, size))
    if traced or plan.aligned or lengths is not None:
        out, order = torch.sort(runs, dim=2, stable=True)
    else:
        out, order = torch.sort(runs, dim=2)  # which, unlike the stable sort, exports to ONNX
    if plan.aligned:
        rank = torch.argsort(order[..., :1], dim=2).expand_as(order)
        out, order = out.gather(2, rank), order.gather(2, rank)
    if plan.descending is not None:
        out, order = _turn(out, order, lengths, torch.tensor(plan.descending, device=x.device))
    if not traced:
        return out.flatten(1, 2)[:, :tokens], None
    source = order + torch.arange(runs.shape[1], device=x.device)[:, None, None] * size
    return out.flatten(1, 2)[:, :tokens], source.flatten(1, 2)[:, :tokens].to(_counting_to(tokens))


def _fill_up(x, lengths, size):
    """Whole groups, with what PyTorch sorts behind everything else in place of padding."""
    missing = -x.shape[1] % size
    highest = float("nan") if x.is_floating_point() else torch.iinfo(x.dtype).max
    if lengths is not None:
        real = torch.arange(x.shape[1], device=x.device)[:, None] < lengths
        x = torch.where(real, x, torch.full_like(x[:1, :1, :1], highest))
    if statically_known_true(missing == 0):
        return x
    return pad(x, (0, 0, 0, missing), value=highest)


def _turn(out, order, lengths, descending):
    """Reverse the real tokens of the one group of every sample where the channel descends."""
    if lengths is None:
        return (torch.where(descending, t.flip(2), t) for t in (out, order))
    token = torch.arange(out.shape[2], device=out.device)[:, None]
    mirror = torch.where((token < lengths) & descending, lengths - 1 - token, token)[:, None]
    return out.gather(2, mirror), order.gather(2, mirror)


def by_numpy(x, lengths, plan, traced):
    """NumPy sorts contiguous integers in vector registers, many times faster than PyTorch.

    Floats become integers of the same order. Where places matter, an integer of twice the width
    holds the value above its token, and so a sort that is not stable becomes so. To `torch.compile`
    all of it is one opaque op.
    """
    if not compiling():
        return _by_numpy(x, lengths, plan, traced)
    out, source = _opaque_by_numpy(x, lengths, *plan[1:], traced)
    return out, source if traced else None


@torch.library.custom_op("keras_permix::sort_by_numpy", mutates_args=())
def _opaque_by_numpy(
    x: torch.Tensor,
    lengths: torch.Tensor | None,
    group_size: int | None,
    aligned: bool,
    descending: Sequence[bool] | None,
    traced: bool,
) -> tuple[torch.Tensor, torch.Tensor]:
    lengths = None if lengths is None else tuple(lengths.flatten().tolist())
    out, source = _by_numpy(x, lengths, Plan(None, group_size, aligned, descending), traced)
    # The compiler, which may not know the number of tokens, has to know the type all the same.
    return out, source.to(torch.int32) if traced else x.new_empty(0)


@_opaque_by_numpy.register_fake
def _(x, lengths, group_size, aligned, descending, traced):
    source = x.new_empty(x.shape, dtype=torch.int32) if traced else x.new_empty(0)
    return torch.empty_like(x, memory_format=torch.contiguous_format), source


def _by_numpy(x, lengths, plan, traced):
    key, packed = to_key(x.detach()), traced or plan.aligned
    narrow = key.dtype
    if packed and x.shape[1] - 1 > torch.iinfo(narrow).max:
        key = key.to(WIDER[narrow])  # else tokens would not fit below
    # -0.0, whose key is -1, is to equal 0.0; the few tensors that have one fetch it afterwards.
    minus_zero = packed and x.is_floating_point() and bool((key == -1).any())
    if minus_zero:
        key = key.masked_fill(key == -1, 0)
    keys = _pack(key) if packed else key.transpose(1, 2).contiguous()
    _sort_(keys, lengths, plan)
    halves = keys.view(key.dtype).unflatten(2, (-1, 2)) if packed else keys.unsqueeze(3)
    if plan.aligned:
        halves = _align(keys, halves[:, 0, :, LOW]).view(key.dtype).unflatten(2, (-1, 2))
    source = None
    if traced or minus_zero:
        source = _tokens_first(halves[..., LOW], _counting_to(x.shape[1]))
    if minus_zero:
        return x.gather(1, source.long()), source
    return from_key(_tokens_first(halves[..., HIGH if packed else 0], narrow), x.dtype), source


def _pack(key):
    """Integers of twice the width, (batch, channels, tokens): the key above its token."""
    key = key.transpose(1, 2)
    packed = torch.empty((*key.shape, 2), dtype=key.dtype)
    packed[..., HIGH] = key
    packed[..., LOW] = torch.arange(key.shape[2], dtype=key.dtype)
    return packed.view(WIDER[key.dtype]).squeeze(-1)


def _sort_(keys, lengths, plan):
    turn = None
    if plan.descending is not None:
        turn = -torch.tensor(plan.descending).to(keys.dtype)[:, None]
        keys ^= turn
    threads = max(1, min(torch.get_num_threads(), -(-keys.numel() // WORTH_A_THREAD)))
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
    if turn is not None:
        keys ^= turn


def _sort_rows_(rows, size):
    """Sort every row in groups of `size`, of which the last may be short."""
    whole = rows.shape[1] // size * size
    rows[:, :whole].reshape(len(rows), -1, size).sort()  # a view, since only the last axis is cut
    rows[:, whole:].sort()


def _align(keys, place):
    """Give the groups of every channel the ranks of those of channel 0, whose tokens these are."""
    rank = torch.empty(place.shape, dtype=torch.int64)
    rank.scatter_(1, place.long(), torch.arange(place.shape[1]).expand_as(rank))
    return keys.gather(2, rank[:, None].expand_as(keys))


def _tokens_first(x, dtype):
    """A contiguous copy, (batch, tokens, channels), of channels before tokens."""
    return torch.empty((x.shape[0], x.shape[2], x.shape[1]), dtype=dtype).copy_(x.transpose(1, 2))


def _counting_to(tokens):
    return small_integer(tokens) if isinstance(tokens, int) else torch.int32
