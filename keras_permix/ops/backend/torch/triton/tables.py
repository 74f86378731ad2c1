"""Make the tables of steps that a kernel reads, on its device.

What `torch.compile` makes is given its tables, like weights. A tensor that it made by itself, while
a CUDA graph is recorded, would lie in the memory of that graph, and not outlive it. Only a program
for any number of tokens makes its tables when it runs.
"""

import ast
from functools import lru_cache
from typing import Any, NamedTuple

import torch
from torch.fx.experimental.symbolic_shapes import has_static_value

from keras_permix.ops.backend.torch.runtime import recorded
from keras_permix.ops.backend.torch.shift import remainders_of
from keras_permix.ops.backend.triton.windows import (
    Reads,
    Real,
    Window,
    reads_of,
    window_for_any,
)

RECORDED: dict[tuple, "Tables"] = {}  # what CUDA graphs read, for as long as they may be replayed


class Tables(NamedTuple):
    """The tensors that the kernels of a plan read beside values, or None."""

    moves: Any = None  # offsets of `Reads`
    beside: Any = None  # starts of `Reads`; of sorts (channels,), int8, 1 for those to turn


def find_real(mask):
    """The real tokens that a mask, (batch, tokens), marks."""
    mask = mask.bool()
    order = torch.argsort((~mask).to(torch.uint8), dim=1, stable=True)
    return Real(order.int(), mask.sum(1, dtype=torch.int32))


def masked_moves(x, plan, real, back=False):
    """The moves of a masked call, whose steps are those for the number of real tokens."""
    if plan.steps is None:
        return torch.zeros(x.shape[::2], dtype=torch.int32, device=x.device)
    lengths = real.lengths[:, None].clamp(min=1)
    return remainders_of(plan, lengths, x.shape[1], not back, x.device).int().contiguous()


def given_tables(x, plan, back=False):
    """The tables of a call that is being compiled for one size of sample; of others none."""
    if not torch.compiler.is_compiling() or not of_one_size(x):
        return Tables()
    tables = getattr(HELD, _held(*_call(x, plan, back)))
    return Tables(tables.moves, tables.beside)


def of_one_size(x):
    """Return whether a program that is being compiled takes only samples of this size."""
    return has_static_value(x.shape[1]) and has_static_value(x.shape[2])


def tables_for(x, plan, back=False):
    """The tables for `x` of a plan that `Plan.at` has made, or those of its inverse."""
    call = _call(x, plan, back)
    tables = _tables(*call)
    if recorded(x):
        RECORDED[call] = tables
    return tables


def reads_with(tables, real, x, plan, back=False):
    """Return the `Reads` of a shift of `x`, or of its inverse, by its tables."""
    if tables.moves is None:
        return Reads(Window(), real=real)
    if real.order is not None:
        window = window_for_any(x.shape[1], x.element_size())
        return Reads(window, tables.moves, real=real)
    steps = tuple(plan.steps or (0,) * x.shape[2])
    return Reads(reads_of(steps, x.shape[1], x.element_size(), back)[1], *tables)


def sorts(plan):
    """Whether a plan sorts groups, rather than to shift or to order pairs."""
    return plan.group_size > 1 and not plan.orders_pairs()


def _call(x, plan, back):
    steps = None if plan.steps is None else tuple(plan.steps)
    turns = None if plan.descending is None or back else tuple(plan.descending)
    return steps, turns, sorts(plan), back, *x.shape[1:], x.element_size(), x.device


class _Held:
    """The tables of compiled programs, as attributes whose names tell the call that they are for.

    So a program that was saved has its tables in another process, where they are made when first
    it asks for them.
    """

    def __getattr__(self, name):
        if not name.startswith("("):
            raise AttributeError(name)
        *call, device = ast.literal_eval(name)
        tables = _tables(*call, torch.device(device))
        for tensor in tables:
            if tensor is not None:
                torch._dynamo.mark_static_address(tensor)
        return vars(self).setdefault(name, tables)


HELD = _Held()


@torch.compiler.assume_constant_result
def _held(*call):
    """The name of tables that `HELD` has: asked when a program is written, not when it runs."""
    *call, device = call
    name = repr((*call, str(device)))
    getattr(HELD, name)  # makes them, where PyTorch's compiler does not see it
    return name


@lru_cache(maxsize=256)
def _tables(steps, turns, sorts, back, tokens, channels, itemsize, device):
    if sorts:
        return Tables(None, _table(turns, torch.int8, device))
    if steps is None and not back:
        return Tables()
    reads, window = reads_of(steps or (0,) * channels, tokens, itemsize, back)
    starts = window.starts or None
    return Tables(_table(reads, torch.int32, device), _table(starts, torch.int32, device))


def _table(values, dtype, device):
    """A tuple of integers as a tensor; None of None."""
    if values is None:
        return None
    with torch.inference_mode(False):
        return torch.tensor(values, dtype=dtype, device=device)
