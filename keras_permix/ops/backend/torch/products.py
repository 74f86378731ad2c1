"""Dense layers and moving averages in PyTorch."""

import torch

from keras_permix.ops.backend.torch.runtime import compiling
from keras_permix.ops.reference import ema
from keras_permix.ops.reference.linear import dense as dense_by_keras


def dense(x, kernel, bias, mask):
    """`x @ kernel + bias`; as Keras has it where it promotes types."""
    if bias is None or {kernel.dtype, bias.dtype} != {x.dtype}:
        return dense_by_keras(x, kernel, bias, mask)
    return torch.nn.functional.linear(x, kernel.t(), bias)


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
