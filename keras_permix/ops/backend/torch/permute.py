"""One permutation of tokens, with its gradient, the inverse, which has one in its turn.

What the data decide is computed once, and leaves a trace by which the permutation can be repeated
and undone. A call that needs no gradient leaves none.
"""

from functools import partial

import torch

from keras_permix.ops.backend.torch import groups, pairs
from keras_permix.ops.backend.torch.by_trace import permute_by_trace
from keras_permix.ops.backend.torch.packing import read, to_front, to_places
from keras_permix.ops.backend.torch.runtime import compiling, exporting, fold
from keras_permix.ops.backend.torch.shift import shift


def permute(x, mask, plan, sort=groups.by_torch):
    """Permute the tokens of `x`, (batch, tokens, channels), as `plan` says."""
    plan = _settle(plan, x.shape[1], mask)
    if plan.group_size == 1:
        return permute_by_trace(x, None, mask, plan, False)
    # What is exported is differentiated by PyTorch, if at all: ONNX has no stable sort.
    traced = torch.is_grad_enabled() and x.requires_grad and not exporting()
    if compiling() and not traced:
        return _order(x, mask, plan, sort, traced)[0]
    return _Order.apply(x, mask, plan, sort, traced)[0]


permute_by_numpy = partial(permute, sort=groups.by_numpy)


def permute_by_triton(x, mask, plan):
    from keras_permix.ops.backend.torch.triton import functions  # which imports Triton

    return functions.permute(x, mask, plan)


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
    if plan.orders_pairs():
        trace = pairs.order(shifted, front[..., :1] if plan.aligned else None, lengths)
        out = pairs.swap(shifted, trace)
    else:
        out, trace = sort(shifted, lengths, plan, traced)
    return to_places(out, packing), trace


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
        return permute_by_trace(grad, *ctx.saved_tensors, ctx.plan, True), None, None, None, None

    @staticmethod
    def vmap(info, dims, x, mask, plan, sort, traced):
        (x, mask), unfold = fold(info, dims, x, mask)
        out, trace = _Order.apply(x, mask, plan, sort, traced)
        return (unfold(out), unfold(trace) if traced else trace), (0, 0 if traced else None)
