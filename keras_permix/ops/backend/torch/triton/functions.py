"""What runs on PyTorch by Triton kernels; imported when a row first leads here.

To `torch.compile` a permutation is one opaque op, and so is its inverse.
"""

from collections.abc import Sequence

import torch

from keras_permix.ops.backend.plan import Plan
from keras_permix.ops.backend.torch.by_trace import permute_by_trace
from keras_permix.ops.backend.torch.triton.channel_shift import shift
from keras_permix.ops.backend.torch.triton.group_sort import (
    empty_places,
    put_back,
    sort_groups,
    sources,
)
from keras_permix.ops.backend.torch.triton.shift_pairs import (
    empty_swaps,
    order_pairs,
    swapped,
    undo_pairs,
)
from keras_permix.ops.backend.torch.triton.tables import (
    Tables,
    given_tables,
    of_one_size,
    reads_with,
    sorts,
    tables_for,
)


def permute(x, plan):
    """Permute the tokens of `x`, (batch, tokens, channels), as `plan` says."""
    if plan.is_identity():
        return x.clone()
    if plan.steps and sorts(plan, x.shape[1]):  # two kernels, since one would read slowly
        return permute(permute(x, Plan(plan.steps, 1)), plan._replace(steps=None))
    differentiable = torch.is_grad_enabled() and x.requires_grad
    make = _opaque_permute[of_one_size(x)] if torch.compiler.is_compiling() else _permute
    with torch.no_grad():
        out, trace = make(x, *given_tables(x, plan), *plan, differentiable)
    if not differentiable:
        return out
    return _WithInverse.apply(x, out, trace, *given_tables(x, plan, back=True), plan)


class _WithInverse(torch.autograd.Function):
    """`out`, a permutation of `x`, with the gradient that leads back."""

    @staticmethod
    def forward(ctx, x, out, trace, moves, beside, plan):
        ctx.save_for_backward(trace, moves, beside)
        ctx.plan = plan
        return out.view_as(out)

    @staticmethod
    def backward(ctx, grad):
        if torch.compiler.is_compiling():  # which differentiates once
            undone = _opaque_undo[of_one_size(grad)](grad, *ctx.saved_tensors, *ctx.plan)
        else:
            undone = _Undo.apply(grad, *ctx.saved_tensors, ctx.plan)
        return undone, None, None, None, None, None


class _Undo(torch.autograd.Function):
    """That gradient. Its own is the permutation once more, and from there on PyTorch's."""

    @staticmethod
    def forward(ctx, grad, trace, moves, beside, plan):
        ctx.save_for_backward(trace)
        ctx.plan = plan
        return _undo(grad, trace, moves, beside, *plan)

    @staticmethod
    def backward(ctx, x):
        trace = _as_torch_keeps_it(*ctx.saved_tensors, ctx.plan, x.shape[1])
        return permute_by_trace(x, trace, None, ctx.plan, False), None, None, None, None


def _permute(x, moves, beside, steps, group_size, aligned, descending, traced):
    plan, x = Plan(steps, group_size, aligned, descending), x.contiguous()
    tables = _given(moves, beside) or tables_for(x, plan)
    with torch.cuda.device_of(x):
        if group_size == 1:
            return shift(x, reads_with(tables, x, plan)), None
        if plan.in_pairs(x.shape[1]):
            return order_pairs(x, reads_with(tables, x, plan), aligned=aligned, traced=traced)
        options = dict(descending=tables.beside, aligned=aligned, traced=traced)
        return sort_groups(x, group_size, **options)


def _undo(grad, trace, moves, beside, steps, group_size, aligned, descending):
    plan, grad = Plan(steps, group_size, aligned, descending), grad.contiguous()
    tables = _given(moves, beside) or tables_for(grad, plan, back=True)
    with torch.cuda.device_of(grad):
        if group_size == 1:
            return shift(grad, reads_with(tables, grad, plan, back=True))
        if plan.in_pairs(grad.shape[1]):
            return undo_pairs(grad, trace, reads_with(tables, grad, plan, back=True))
        return put_back(grad, trace, group_size)


def _given(moves, beside):
    return None if moves is None and beside is None else Tables(moves, beside)


def _as_torch_keeps_it(trace, plan, tokens):
    if plan.group_size == 1:
        return None
    if plan.in_pairs(tokens):
        return swapped(trace, tokens)
    return sources(trace, plan.group_size)


def _opaque(name, function, fake):
    """A function as two ops, by whether samples are of one size, so that it is given its tables.

    The other makes them when it runs. They would lie in the memory of a CUDA graph, and not outlive
    it, so none is recorded.
    """
    name, unsafe = f"keras_permix::{name}_by_triton", (torch.Tag.cudagraph_unsafe,)
    ops = {
        True: torch.library.custom_op(name, function, mutates_args=()),
        False: torch.library.custom_op(f"{name}_any", function, mutates_args=(), tags=unsafe),
    }
    for op in ops.values():
        op.register_fake(fake)
    return ops


def _permute_traced(
    x: torch.Tensor,
    moves: torch.Tensor | None,
    beside: torch.Tensor | None,
    steps: Sequence[int] | None,
    group_size: int,
    aligned: bool,
    descending: Sequence[bool] | None,
    traced: bool,
) -> tuple[torch.Tensor, torch.Tensor]:
    out, trace = _permute(x, moves, beside, steps, group_size, aligned, descending, traced)
    return out, x.new_empty(0) if trace is None else trace


def _permuted_like(x, moves, beside, steps, group_size, aligned, descending, traced):
    if group_size == 1 or not traced:
        trace = x.new_empty(0)
    elif Plan(steps, group_size, aligned, descending).in_pairs(x.shape[1]):
        trace = empty_swaps(x)
    else:
        trace = empty_places(x, group_size)
    return torch.empty_like(x, memory_format=torch.contiguous_format), trace


def _undo_traced(
    grad: torch.Tensor,
    trace: torch.Tensor,
    moves: torch.Tensor | None,
    beside: torch.Tensor | None,
    steps: Sequence[int] | None,
    group_size: int,
    aligned: bool,
    descending: Sequence[bool] | None,
) -> torch.Tensor:
    return _undo(grad, trace, moves, beside, steps, group_size, aligned, descending)


def _undone_like(grad, *options):
    return torch.empty_like(grad, memory_format=torch.contiguous_format)


_opaque_permute = _opaque("permute", _permute_traced, _permuted_like)
_opaque_undo = _opaque("undo", _undo_traced, _undone_like)
