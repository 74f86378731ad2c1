"""Permute tokens by a plan in PyTorch, with gradients of any order.

The order, which depends on the data, is computed once and returned as residuals, which
repeat and invert the permutation: the marks of swapped pairs, the source token of every value,
or nothing for shifts. A call without a gradient returns no residuals.
"""

from functools import partial

import torch

from keras_permix.ops.backend.torch import groups, pairs
from keras_permix.ops.backend.torch.packing import read, to_front, to_positions
from keras_permix.ops.backend.torch.runtime import (
    compiling,
    exporting,
    fold,
    is_static,
    may_have_gradient,
)
from keras_permix.ops.backend.torch.shift import shift


def permute(x, mask, plan, sort=groups.by_torch):
    """Permute the tokens of `x`, (batch, tokens, channels), by `plan`."""
    plan = _settle(plan, x.shape[1], mask)
    if plan.group_size == 1:
        return permute_by_residuals(x, None, mask, plan, False)
    # Exported programs use PyTorch's gradients, because ONNX has no stable sort.
    with_residuals = torch.is_grad_enabled() and may_have_gradient(x) and not exporting()
    if compiling() and not with_residuals:
        return _order(x, mask, plan, sort, with_residuals)[0]
    return _Order.apply(x, mask, plan, sort, with_residuals)[0]


permute_by_numpy = partial(permute, sort=groups.by_numpy)


def _settle(plan, tokens, mask):
    """Return `plan` for `tokens` tokens; with a mask or any number, steps are reduced later."""
    if mask is None and not compiling():
        return plan.at(tokens)
    if mask is None and getattr(plan.steps, "is_tabled", False) and is_static(tokens):
        plan = plan._replace(steps=plan.steps.make(max(tokens, 1)))
    shifted = any(plan.steps) if isinstance(plan.steps, tuple) else plan.steps
    return plan if shifted else plan._replace(steps=None)


def _order(x, mask, plan, sort, with_residuals):
    """Return the permuted tensor, and its residuals."""
    packing = None if mask is None else read(mask, x)
    lengths = packing and packing.lengths
    front = to_front(x, packing)
    shifted = shift(front, plan, lengths)
    if plan.orders_pairs():
        residuals = pairs.order(shifted, front[..., :1] if plan.aligned else None, lengths)
        out = pairs.swap(shifted, residuals)
    else:
        out, residuals = sort(shifted, lengths, plan, with_residuals)
    return to_positions(out, packing), residuals


class _Order(torch.autograd.Function):
    @staticmethod
    def forward(x, mask, plan, sort, with_residuals):
        out, residuals = _order(x, mask, plan, sort, with_residuals)
        # A view could not be changed in place.
        return out.detach(), residuals if with_residuals else x.new_empty(0)

    @staticmethod
    def setup_context(ctx, inputs, output):
        _, mask, ctx.plan, *_ = inputs
        ctx.mark_non_differentiable(output[1])
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(output[1], mask)

    @staticmethod
    def backward(ctx, grad, _):
        undone = permute_by_residuals(grad, *ctx.saved_tensors, ctx.plan, True)
        return undone, None, None, None, None

    @staticmethod
    def vmap(info, dims, x, mask, plan, sort, with_residuals):
        (x, mask), unfold = fold(info, dims, x, mask)
        out, residuals = _Order.apply(x, mask, plan, sort, with_residuals)
        if not with_residuals:
            return (unfold(out), residuals), (0, None)
        return (unfold(out), unfold(residuals)), (0, 0)


class _ByResiduals(torch.autograd.Function):
    """Apply `_repeat` or `_undo`, which are the gradients of each other."""

    @staticmethod
    def forward(x, residuals, mask, plan, back):
        return (_undo if back else _repeat)(x, residuals, mask, plan)

    @staticmethod
    def setup_context(ctx, inputs, output):
        _, residuals, mask, ctx.plan, ctx.back = inputs
        ctx.save_for_backward(residuals, mask)

    @staticmethod
    def backward(ctx, grad):
        undone = permute_by_residuals(grad, *ctx.saved_tensors, ctx.plan, not ctx.back)
        return undone, None, None, None, None

    @staticmethod
    def vmap(info, dims, x, residuals, mask, plan, back):
        (x, residuals, mask), unfold = fold(info, dims, x, residuals, mask)
        return unfold(_ByResiduals.apply(x, residuals, mask, plan, back)), 0


permute_by_residuals = _ByResiduals.apply


def _repeat(x, residuals, mask, plan):
    """Permute by `residuals`."""
    packing = None if mask is None else read(mask, x)
    out = shift(to_front(x, packing), plan, packing and packing.lengths)
    if plan.orders_pairs():
        out = pairs.swap(out, residuals)
    elif residuals is not None:
        out = out.gather(1, residuals.long())
    return to_positions(_copied(out, x), packing)


def _undo(x, residuals, mask, plan):
    """Undo `_repeat`."""
    packing = None if mask is None else read(mask, x)
    out = to_front(x, packing)
    if plan.orders_pairs():
        out = pairs.swap(out, residuals)
    elif residuals is not None:
        out = torch.empty_like(out).scatter_(1, residuals.long(), out)
    out = shift(out, plan, packing and packing.lengths, back=True)
    return to_positions(_copied(out, x), packing)


def _copied(out, x):
    """Return `out`, or a copy if it is `x` itself, so that it may be changed."""
    return x.clone(memory_format=torch.contiguous_format) if out is x else out
