"""Run Triton kernels on PyTorch; imported on their first call.

For `torch.compile`, a permutation is one opaque op, and so is its inverse.
"""

from collections.abc import Sequence

import torch

from keras_permix.ops.backend.plan import Plan
from keras_permix.ops.backend.torch.permute import permute_by_residuals
from keras_permix.ops.backend.torch.triton.tables import (
    Tables,
    find_real,
    given_tables,
    masked_moves,
    of_one_size,
    reads_with,
    sorts,
    tables_for,
)
from keras_permix.ops.backend.triton.pairs import PAIRS, order_pairs, swaps_of, undo_pairs
from keras_permix.ops.backend.triton.shift import REGISTERS, shift
from keras_permix.ops.backend.triton.sort import positions_of, put_back, sort_groups
from keras_permix.ops.backend.triton.windows import ALL, Real


def permute(x, mask, plan):
    """Permute the tokens of `x`, (batch, tokens, channels), by `plan`."""
    tokens = x.shape[1]
    group_size = tokens if plan.group_size is None else min(plan.group_size, tokens)
    if mask is None and tokens % group_size:  # the last group is shorter
        mask = torch.ones(x.shape[:2], dtype=torch.bool, device=x.device)
    if mask is None:
        plan = plan.at(tokens)
        identity = plan.group_size == 1 and plan.steps is None
        return x.clone() if identity else _permute_real(x, None, ALL, plan)
    shifted = any(plan.steps) if isinstance(plan.steps, tuple) else plan.steps
    plan = plan._replace(steps=plan.steps if shifted else None, group_size=group_size)
    mask = mask.to(x.device)
    return _permute_real(x, mask, find_real(mask), plan)


def _permute_real(x, mask, real, plan):
    if plan.steps and sorts(plan):  # two kernels, because one would read slowly
        x = _permute_real(x, mask, real, Plan(plan.steps, 1, plan.aligned))
        plan = plan._replace(steps=None)
    differentiable = torch.is_grad_enabled() and x.requires_grad
    make = _opaque_permute[of_one_size(x)] if torch.compiler.is_compiling() else _permute
    with torch.no_grad():
        out, residuals = make(x, *_given(x, real, plan), *_static(plan, mask), differentiable)
    if not differentiable:
        return out
    return _WithInverse.apply(x, out, residuals, mask, *_given(x, real, plan, back=True), plan)


def _given(x, real, plan, back=False):
    """Return the tensors of a call: moves, `beside` of `Tables`, order and lengths."""
    masked = real.order is not None and not sorts(plan)
    tables = Tables(masked_moves(x, plan, real, back)) if masked else given_tables(x, plan, back)
    return *tables, *real


def _static(plan, mask):
    """Return the plan for the ops; steps of a masked call are passed as tensors."""
    return plan if mask is None else plan._replace(steps=None)


class _WithInverse(torch.autograd.Function):
    """Return `out`, a permutation of `x`, with the inverse as its gradient."""

    @staticmethod
    def forward(ctx, x, out, residuals, mask, moves, beside, order, lengths, plan):
        ctx.save_for_backward(residuals, mask, moves, beside, order, lengths)
        ctx.plan = plan
        if torch.compiler.is_compiling():
            return out.view_as(out)
        ctx.mark_dirty(out)  # A view could not be changed in place.
        return out

    @staticmethod
    def backward(ctx, grad):
        residuals, mask, *tables = ctx.saved_tensors
        if torch.compiler.is_compiling():  # compilers differentiate only once
            undo, plan = _opaque_undo[of_one_size(grad)], _static(ctx.plan, mask)
            undone = undo(grad, residuals, *tables, *plan)
        else:
            undone = _Undo.apply(grad, residuals, mask, *tables, ctx.plan)
        return undone, *(None,) * 8


class _Undo(torch.autograd.Function):
    """Apply the inverse; its gradient is the permutation by operations of PyTorch."""

    @staticmethod
    def forward(ctx, grad, residuals, mask, moves, beside, order, lengths, plan):
        ctx.save_for_backward(residuals, mask)
        ctx.plan = plan
        return _undo(grad, residuals, moves, beside, order, lengths, *_static(plan, mask))

    @staticmethod
    def backward(ctx, x):
        residuals, mask = ctx.saved_tensors
        residuals = _as_torch_keeps_it(residuals, ctx.plan, x.shape[1])
        return permute_by_residuals(x, residuals, mask, ctx.plan, False), *(None,) * 7


def _permute(
    x: torch.Tensor,
    moves: torch.Tensor | None,
    beside: torch.Tensor | None,
    order: torch.Tensor | None,
    lengths: torch.Tensor | None,
    steps: Sequence[int] | None,
    group_size: int,
    aligned: bool,
    descending: Sequence[bool] | None,
    with_residuals: bool,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the permuted tensor, and its residuals, which are empty for a shift."""
    plan, x = Plan(steps, group_size, aligned, descending), x.contiguous()
    tables, real = _completed(x, plan, False, moves, beside), Real(order, lengths)
    options = dict(aligned=aligned, with_residuals=with_residuals)
    with torch.cuda.device_of(x):
        if group_size == 1:
            out, residuals = shift(run, x, reads_with(tables, real, x, plan)), None
        elif plan.orders_pairs():
            out, residuals = order_pairs(run, x, reads_with(tables, real, x, plan), **options)
        else:
            flips = tables.beside
            out, residuals = sort_groups(run, x, group_size, real, descending=flips, **options)
    return out, x.new_empty(0) if residuals is None else residuals


def _undo(
    grad: torch.Tensor,
    residuals: torch.Tensor,
    moves: torch.Tensor | None,
    beside: torch.Tensor | None,
    order: torch.Tensor | None,
    lengths: torch.Tensor | None,
    steps: Sequence[int] | None,
    group_size: int,
    aligned: bool,
    descending: Sequence[bool] | None,
) -> torch.Tensor:
    plan, grad = Plan(steps, group_size, aligned, descending), grad.contiguous()
    tables, real = _completed(grad, plan, True, moves, beside), Real(order, lengths)
    with torch.cuda.device_of(grad):
        if group_size == 1:
            return shift(run, grad, reads_with(tables, real, grad, plan, back=True))
        if plan.orders_pairs():
            return undo_pairs(run, grad, reads_with(tables, real, grad, plan, back=True), residuals)
        return put_back(run, grad, residuals, group_size, real)


def _completed(x, plan, back, moves, beside):
    """Return the given tables of a call, or make them."""
    made = moves is None and beside is None
    return tables_for(x, plan, back) if made else Tables(moves, beside)


def run(program, arrays, results):
    """Start a kernel on PyTorch tensors, and return its results in order."""
    arrays = {
        name: array if array is None else array.contiguous() for name, array in arrays.items()
    }
    like = next(iter(arrays.values()))
    made = {name: _empty(like, *result) for name, result in results.items()}
    program.kernel[(program.grid,)](
        **arrays, **made, **program.arguments, num_warps=program.warps, maxnreg=REGISTERS
    )
    return tuple(made.values())


def _empty(like, shape, dtype):
    dtype = getattr(torch, dtype) if isinstance(dtype, str) else dtype
    return like.new_empty(shape, dtype=dtype)


def _as_torch_keeps_it(residuals, plan, tokens):
    if plan.group_size == 1:
        return None
    if plan.orders_pairs():  # which pairs were swapped, (batch, tokens / 2, channels)
        pair = torch.arange(tokens // 2, device=residuals.device)
        words = residuals[:, pair // PAIRS.value]
        return (words >> (pair % PAIRS.value)[:, None] & 1).bool()
    token = torch.arange(tokens, device=residuals.device)[:, None]
    return token // plan.group_size * plan.group_size + residuals


def _opaque(name, function, fake):
    """Register a function as two ops: for samples of one size, with given tables, and for any size.

    The latter makes its tables at run time, so it is not recorded in CUDA graphs; see `tables.py`.
    """
    name, unsafe = f"keras_permix::{name}_by_triton", (torch.Tag.cudagraph_unsafe,)
    ops = {
        True: torch.library.custom_op(name, function, mutates_args=()),
        False: torch.library.custom_op(f"{name}_any", function, mutates_args=(), tags=unsafe),
    }
    for op in ops.values():
        op.register_fake(fake)
    return ops


def _permuted_like(x, moves, beside, order, lengths, *plan_and_flag):
    *plan, with_residuals = plan_and_flag
    plan = Plan(*plan)
    if plan.group_size == 1 or not with_residuals:
        residuals = x.new_empty(0)
    elif plan.orders_pairs():
        residuals = _empty(x, *swaps_of(x.shape))
    else:
        residuals = _empty(x, *positions_of(x.shape, plan.group_size))
    return torch.empty_like(x, memory_format=torch.contiguous_format), residuals


_opaque_permute = _opaque("permute", _permute, _permuted_like)
_opaque_undo = _opaque(
    "undo", _undo, lambda grad, *_: torch.empty_like(grad, memory_format=torch.contiguous_format)
)
