"""The damped EMA, with copies where products of views would be slow."""

import torch

from keras_permix.ops.backend.torch.tracing import compiling
from keras_permix.ops.reference import ema


@ema.as_implementation
def damped_ema(x, weight, log_decay, omega, truncation):
    transpose = torch.permute if compiling() else _Transpose.apply
    return ema.by_chunks(x, weight, log_decay, omega, truncation, transpose)


class _Transpose(torch.autograd.Function):
    """A transposed copy, and so is its gradient: products of a view would copy every matrix."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x, axes):
        return x.permute(axes).contiguous()

    @staticmethod
    def setup_context(ctx, inputs, output):
        axes = inputs[1]
        ctx.back = tuple(axes.index(axis) for axis in range(len(axes)))

    @staticmethod
    def backward(ctx, grad):
        return _Transpose.apply(grad, ctx.back), None
