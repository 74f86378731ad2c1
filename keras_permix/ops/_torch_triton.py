"""What runs on PyTorch by Triton kernels; imported when a row first leads here."""

from functools import lru_cache

import torch
from torch.autograd.function import once_differentiable

from keras_permix.ops.kernels.triton_channel_shift import shift
from keras_permix.ops.kernels.triton_group_sort import put_back, sort_groups
from keras_permix.ops.kernels.triton_shift_pairs import order_pairs, undo_pairs


def permute(x, plan):
    """Permute the tokens of `x`, (batch, tokens, channels), as `plan` says."""
    if plan.is_identity() or not x.numel():
        return x
    differentiable = torch.is_grad_enabled() and x.requires_grad
    with torch.no_grad(), torch.cuda.device_of(x):
        out, trace = _permute(x.contiguous(), plan, differentiable)
    return _WithInverse.apply(x, out, trace, plan) if differentiable else out


class _WithInverse(torch.autograd.Function):
    """`out`, a permutation of `x`, with the gradient that leads back."""

    @staticmethod
    def forward(ctx, x, out, trace, plan):
        ctx.save_for_backward(trace)
        ctx.plan = plan
        return out.view_as(out)

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        with torch.cuda.device_of(grad):
            return _undo(grad.contiguous(), *ctx.saved_tensors, ctx.plan), None, None, None


def _permute(x, plan, traced):
    steps = _steps(x, plan)
    if plan.group_size == 1:
        return shift(x, steps), None
    if plan.in_pairs(x.shape[1]):
        return order_pairs(x, steps, aligned=plan.aligned, traced=traced)
    turn = None if plan.descending is None else _table(plan.descending, torch.int8, x.device)
    options = dict(descending=turn, aligned=plan.aligned, traced=traced)
    return sort_groups(x, steps, plan.group_size, **options)


def _undo(grad, trace, plan):
    if plan.group_size == 1:
        return shift(grad, _steps(grad, plan, back=True))
    if plan.in_pairs(grad.shape[1]):
        return undo_pairs(grad, trace, _steps(grad, plan))
    return put_back(grad, trace, _steps(grad, plan), plan.group_size)


def _steps(x, plan, back=False):
    """The steps from 0 to tokens - 1, on the device of `x`."""
    if plan.steps is None:
        return None
    tokens = x.shape[1]
    steps = tuple((-step if back else step) % tokens for step in plan.steps)
    return _table(steps, torch.int32, x.device)


@lru_cache(maxsize=256)
def _table(values, dtype, device):
    with torch.inference_mode(False):
        return torch.tensor(values, dtype=dtype, device=device)
