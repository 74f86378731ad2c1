"""Make the tables of steps that a kernel reads, on its device.

Programs of `torch.compile` receive their tables like weights. Tables that are made while a CUDA
graph is recorded would be in the memory of the graph and not outlive it. Only a program for any
number of tokens makes its tables at run time.
"""

import ast
from functools import lru_cache, partial
from typing import Any, NamedTuple

import torch

from keras_permix.ops.backend.torch.runtime import is_static, recorded
from keras_permix.ops.backend.torch.shift import remainders_of
from keras_permix.ops.backend.triton.windows import Reads, Real, Window, reads_of, window_for_any

RECORDED: dict[tuple, "Tables"] = {}  # kept for CUDA graphs, which may be replayed


class Tables(NamedTuple):
    """Hold the tensors that the kernels of a plan read in addition to values, or None."""

    moves: Any = None  # offsets of `Reads`
    beside: Any = None  # starts of `Reads`; for sorts (channels,), int8, 1 for descending channels


def find_real(mask):
    """Return the real tokens of a mask, (batch, tokens)."""
    mask = mask.bool()
    order = torch.argsort((~mask).to(torch.uint8), dim=1, stable=True)
    return Real(order.int(), mask.sum(1, dtype=torch.int32))


def masked_moves(x, plan, real, back=False):
    """Return the moves of a masked call, with the steps for the number of real tokens."""
    if plan.steps is None:
        return torch.zeros(x.shape[::2], dtype=torch.int32, device=x.device)
    lengths = real.lengths[:, None].clamp(min=1)
    return remainders_of(plan, lengths, x.shape[1], not back, x.device).int().contiguous()


def given_tables(x, plan, back=False):
    """Return the tables of a call that is compiled for one size of samples, else empty tables."""
    if not torch.compiler.is_compiling() or not of_one_size(x):
        return Tables()
    tables = getattr(HELD, _held(*_call(x, plan, back)))
    return Tables(tables.moves, tables.beside)


def of_one_size(x):
    """Return whether a program is compiled for samples of this size only."""
    return is_static(x.shape[1]) and is_static(x.shape[2])


def tables_for(x, plan, back=False):
    """Return the tables for `x` of a plan from `Plan.at`, or those of its inverse."""
    call = _call(x, plan, back)
    tables = RECORDED.get(call) or _tables(*call)
    if recorded(x):
        RECORDED[call] = tables
    return tables


def reads_with(tables, real, x, plan, back=False):
    """Return the `Reads` of a shift of `x`, or of its inverse, by its tables."""
    if tables.moves is None:
        return Reads(Window())
    if real.order is not None:
        window = window_for_any(x.shape[1], x.element_size())
        order = window.order(real, x.shape[1], partial(torch.arange, device=x.device))
        return Reads(window, tables.moves, real=real, order=order)
    steps = tuple(plan.steps or (0,) * x.shape[2])
    return Reads(reads_of(steps, x.shape[1], x.element_size(), back)[1], *tables)


def sorts(plan):
    """Return whether a plan sorts groups, instead of shifting or ordering pairs."""
    return plan.group_size > 1 and not plan.orders_pairs()


def _call(x, plan, back):
    steps = None if plan.steps is None else tuple(plan.steps)
    flips = None if plan.descending is None or back else tuple(plan.descending)
    return steps, flips, sorts(plan), back, *x.shape[1:], x.element_size(), x.device


class _Held:
    """Hold the tables of compiled programs as attributes, whose names encode the call.

    A saved program finds its tables in another process, where they are made on first access.
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
    """Return the name of the tables in `HELD`, evaluated when a program is compiled."""
    *call, device = call
    name = repr((*call, str(device)))
    getattr(HELD, name)  # makes the tables outside of the compiled program
    return name


# Many, since a table must not be freed while a kernel on another stream reads it.
@lru_cache(maxsize=4096)
def _tables(steps, flips, sorts, back, tokens, channels, itemsize, device):
    if sorts:
        return Tables(None, _table(flips, torch.int8, device))
    if steps is None and not back:
        return Tables()
    reads, window = reads_of(steps or (0,) * channels, tokens, itemsize, back)
    starts = window.starts or None
    return Tables(_table(reads, torch.int32, device), _table(starts, torch.int32, device))


def _table(values, dtype, device):
    """Return a tuple of integers as a tensor; None stays None."""
    if values is None:
        return None
    with torch.inference_mode(False):
        return torch.tensor(values, dtype=dtype, device=device)
