"""One permutation of tokens, with its gradient, the inverse, which has one in its turn.

What the data decide is computed once, and leaves a trace by which the permutation can be repeated
and undone. A call that needs no gradient leaves none.
"""

from functools import partial

import torch

from keras_permix.ops.backend.torch import groups, pairs
from keras_permix.ops.backend.torch.folding import fold
from keras_permix.ops.backend.torch.packing import read, to_front, to_places
from keras_permix.ops.backend.torch.shifts import shift
from keras_permix.ops.backend.torch.tracing import compiling, exporting


def permute(x, mask, plan, sort=groups.by_torch):
    """Permute the tokens of `x`, (batch, tokens, channels), as `plan` says."""
    plan = _settle(plan, x.shape[1], mask)
    if plan.group_size == 1:
        return _by_trace(x, None, mask, plan, False)
    # What is exported is differentiated by PyTorch, if at all: a stable sort has no place in ONNX.
    traced = torch.is_grad_enabled() and x.requires_grad and not exporting()
    if compiling() and not traced:
        return _order(x, mask, plan, sort, traced)[0]
    return _Order.apply(x, mask, plan, sort, traced)[0]


permute_by_numpy = partial(permute, sort=groups.by_numpy)


def permute_by_triton(x, mask, plan):
    from keras_permix.ops.backend.torch.triton import functions  # which imports Triton

    return functions.permute(x, plan.at(x.shape[1]))


def _settle(plan, tokens, mask):
    """`plan` for so many tokens; with a mask, or in a graph, steps are reduced later."""
    if mask is None and not compiling():
        return plan.at(tokens)
    shifted = any(plan.steps) if isinstance(plan.steps, tuple) else plan.steps
    return plan if shifted else plan._replace(steps=None)


def _order(x, mask, plan, sort, traced):
    """The permuted tensor, and its trace."""
    packing = None if mask is None else read(mask, x)
    lengths = packing and packing.lengths
    front = to_front(x, packing)
    shifted = shift(front, plan, lengths)
    if _in_pairs(plan):
        trace = pairs.order(shifted, front[..., :1] if plan.aligned else None, lengths)
        out = pairs.swap_(_copy(shifted) if shifted is x else shifted, trace)
    else:
        out, trace = sort(shifted, lengths, plan, traced)
    return to_places(out, packing), trace


def _repeat(x, trace, mask, plan):
    """Permute as `trace` says."""
    packing = None if mask is None else read(mask, x)
    out = shift(to_front(x, packing), plan, packing and packing.lengths)
    out = _copy(out) if out is x else out
    if _in_pairs(plan):
        out = pairs.swap_(out, trace)
    elif trace is not None:
        out = out.gather(1, trace.long())
    return to_places(out, packing)


def _undo(x, trace, mask, plan):
    """The inverse of `_repeat`."""
    packing = None if mask is None else read(mask, x)
    out = to_front(x, packing)
    if _in_pairs(plan):
        out = pairs.swap_(_copy(out) if out is x else out, trace)
    elif trace is not None:
        out = torch.empty_like(out).scatter_(1, trace.long(), out)
    out = shift(out, plan, packing and packing.lengths, back=True)
    return to_places(_copy(out) if out is x else out, packing)


class _Order(torch.autograd.Function):
    @staticmethod
    def forward(x, mask, plan, sort, traced):
        out, trace = _order(x, mask, plan, sort, traced)
        return out, trace if traced else x.new_empty(0)

    @staticmethod
    def setup_context(ctx, inputs, output):
        _, mask, ctx.plan, *_ = inputs
        ctx.mark_non_differentiable(output[1])
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(output[1], mask)

    @staticmethod
    def backward(ctx, grad, _):
        return _by_trace(grad, *ctx.saved_tensors, ctx.plan, True), None, None, None, None

    @staticmethod
    def vmap(info, dims, x, mask, plan, sort, traced):
        (x, mask), unfold = fold(info, dims, x, mask)
        out, trace = _Order.apply(x, mask, plan, sort, traced)
        return (unfold(out), unfold(trace) if traced else trace), (0, 0 if traced else None)


class _ByTrace(torch.autograd.Function):
    """`_repeat`, or `_undo`, each of which is the gradient of the other."""

    @staticmethod
    def forward(x, trace, mask, plan, back):
        return (_undo if back else _repeat)(x, trace, mask, plan)

    @staticmethod
    def setup_context(ctx, inputs, output):
        _, trace, mask, ctx.plan, ctx.back = inputs
        ctx.save_for_backward(trace, mask)

    @staticmethod
    def backward(ctx, grad):
        return _by_trace(grad, *ctx.saved_tensors, ctx.plan, not ctx.back), None, None, None, None

    @staticmethod
    def vmap(info, dims, x, trace, mask, plan, back):
        (x, trace, mask), unfold = fold(info, dims, x, trace, mask)
        return unfold(_ByTrace.apply(x, trace, mask, plan, back)), 0


_by_trace = _ByTrace.apply


def _in_pairs(plan):
    return plan.group_size == 2 and plan.descending is None


def _copy(x):
    return x.clone(memory_format=torch.contiguous_format)
