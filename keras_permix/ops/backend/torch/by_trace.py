"""A permutation that is decided: repeated and undone, each of which is the gradient of the other.

A trace is what the data decided: the pairs that changed places, the token that every value came
from, or nothing where channels were only shifted.
"""

import torch

from keras_permix.ops.backend.torch import pairs
from keras_permix.ops.backend.torch.packing import read, to_front, to_places
from keras_permix.ops.backend.torch.runtime import fold
from keras_permix.ops.backend.torch.shift import shift


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
        return (
            permute_by_trace(grad, *ctx.saved_tensors, ctx.plan, not ctx.back),
            None,
            None,
            None,
            None,
        )

    @staticmethod
    def vmap(info, dims, x, trace, mask, plan, back):
        (x, trace, mask), unfold = fold(info, dims, x, trace, mask)
        return unfold(_ByTrace.apply(x, trace, mask, plan, back)), 0


permute_by_trace = _ByTrace.apply


def _repeat(x, trace, mask, plan):
    """Permute as `trace` says."""
    packing = None if mask is None else read(mask, x)
    out = shift(to_front(x, packing), plan, packing and packing.lengths)
    if plan.orders_pairs():
        out = pairs.swap(out, trace)
    elif trace is not None:
        out = out.gather(1, trace.long())
    return to_places(_copied(out, x), packing)


def _undo(x, trace, mask, plan):
    """The inverse of `_repeat`."""
    packing = None if mask is None else read(mask, x)
    out = to_front(x, packing)
    if plan.orders_pairs():
        out = pairs.swap(out, trace)
    elif trace is not None:
        out = torch.empty_like(out).scatter_(1, trace.long(), out)
    out = shift(out, plan, packing and packing.lengths, back=True)
    return to_places(_copied(out, x), packing)


def _copied(out, x):
    """`out`, which may be changed: a copy of it where it is `x` itself."""
    return x.clone(memory_format=torch.contiguous_format) if out is x else out
