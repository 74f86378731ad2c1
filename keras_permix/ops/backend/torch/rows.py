"""What runs on PyTorch.

A permutation is computed without autograd, together with a trace of what the data decided, and
then given its gradient, the inverse permutation. A call that needs no gradient leaves no trace.
"""

import os
from functools import lru_cache, partial

import torch
from torch.autograd.function import once_differentiable

from keras_permix.ops.backend.dense import dense as dense_by_keras
from keras_permix.ops.backend.plan import SORTING
from keras_permix.ops.backend.torch import groups
from keras_permix.ops.dispatch.rows import Row
from keras_permix.ops.reference import ema

FAST_CONVOLUTION = torch.backends.mkldnn.is_available()
BITS = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}  # by bytes


def device(x):
    """The platform, and the number of devices: one, since every process has its own."""
    return x.device.type, 1


def compiling():
    return torch.compiler.is_compiling() or torch.jit.is_tracing()


def exporting():
    return torch.compiler.is_exporting() or torch.jit.is_tracing()


def dense(x, kernel, bias=None):
    """`x @ kernel + bias`; on a CPU as a convolution by one pixel.

    PyTorch gives oneDNN the convolutions, but the products of float32 matrices to another library,
    which needs up to twice the time on AMD's processors.
    """
    fast = FAST_CONVOLUTION and x.is_cpu and x.dtype == kernel.dtype == torch.float32
    if compiling() or not fast or not x.numel():
        return dense_by_keras(x, kernel, bias)
    pixels = x.reshape(1, -1, 1, x.shape[-1]).permute(0, 3, 1, 2)
    product = torch.nn.functional.conv2d(pixels, kernel.t()[:, :, None, None], bias)
    return product.permute(0, 2, 3, 1).reshape(*x.shape[:-1], -1)


def permute(x, mask, plan, sort=groups.by_torch):
    """Permute the tokens of `x`, (batch, tokens, channels), as `plan` says."""
    return _permute(x, plan.at(x.shape[1]), sort)


def permute_by_triton(x, mask, plan):
    from keras_permix.ops.backend.torch.triton import functions  # which imports Triton

    return functions.permute(x, plan.at(x.shape[1]))


@ema.as_implementation
def damped_ema(x, weight, log_decay, omega, truncation):
    transpose = torch.permute if compiling() else _Transpose.apply
    return ema.by_chunks(x, weight, log_decay, omega, truncation, transpose)


class _Transpose(torch.autograd.Function):
    """A transposed copy, and so is its gradient: products of a view would copy every matrix."""

    @staticmethod
    def forward(ctx, x, axes):
        ctx.back = [axes.index(axis) for axis in range(len(axes))]
        return x.permute(axes).contiguous()

    @staticmethod
    def backward(ctx, grad):
        return grad.permute(ctx.back).contiguous(), None


def max_exchange(x, mask):
    with torch.no_grad():
        winner = x.argmax(dim=1, keepdim=True)
        out = _exchange(x, winner)
    differentiable = torch.is_grad_enabled() and x.requires_grad
    return _WithExchange.apply(x, out, winner) if differentiable else out


class _WithExchange(torch.autograd.Function):
    """`out`, an exchange in `x`, with the gradient that exchanges once more."""

    @staticmethod
    def forward(ctx, x, out, winner):
        ctx.save_for_backward(winner)
        return out.view_as(out)

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        return _exchange(grad, *ctx.saved_tensors), None, None


def _exchange(x, winner):
    top = x.gather(1, winner)
    out = x.scatter(1, winner, x[:, :1])
    out[:, :1] = top
    return out


def _permute(x, plan, sort):
    differentiable = torch.is_grad_enabled() and x.requires_grad
    with torch.no_grad():
        shifted = x if plan.steps is None else _take(x, _places(x, plan.steps))
        if plan.group_size == 1:
            out, trace = shifted, None
        elif plan.in_pairs(x.shape[1]):
            trace = _out_of_order(shifted)
            if plan.aligned:
                trace ^= _out_of_order(x[..., :1])
            out = _swap_(_copy(shifted) if plan.steps is None else shifted, trace)
        else:
            out, trace = sort(shifted, plan, differentiable)
    if not differentiable:
        return out
    back = None if plan.steps is None else _places(x, plan.steps, back=True)
    return _WithInverse.apply(x, out, trace, back)


class _WithInverse(torch.autograd.Function):
    """`out`, a permutation of `x`, with the gradient that leads back."""

    @staticmethod
    def forward(ctx, x, out, trace, back):
        ctx.save_for_backward(trace, back)
        return out.view_as(out)

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        trace, back = ctx.saved_tensors
        if trace is not None:
            pairs = trace.dtype == torch.bool
            grad = _swap_(_copy(grad), trace) if pairs else _put(grad, trace)
        return (grad if back is None else _take(grad, back)), None, None, None


def _take(x, places):
    """Gather samples by their places, token by token: all cores share even a single sequence.

    PyTorch's other ways, `index_select` and `gather` from flat rows, take up to twice the time.
    """
    rows = x.flatten(1).unsqueeze(1).expand(-1, x.shape[1], -1)
    return rows.gather(2, places.expand(x.shape[0], -1, -1))


def _put(x, places):
    """Send every sample to its token, the inverse of a gather: out[places[n]] = x[n]."""
    return torch.empty_like(x).scatter_(1, places.long(), x)


def _out_of_order(x):
    return x[:, 1::2] < x[:, 0::2]


def _copy(x):
    return x.clone(memory_format=torch.contiguous_format)


def _swap_(x, swap):
    """Change the places of the pairs that `swap` marks: in `x` itself, but for graphs.

    PyTorch does not vectorise `where`, but it does so for bits: a ^ (a ^ b) is b.
    """
    if compiling():
        pairs = x.unflatten(1, (-1, 2))
        return torch.where(swap.unsqueeze(2), pairs.flip(2), pairs).flatten(1, 2)
    bits = x.view(BITS[x.element_size()]).unflatten(1, (-1, 2))
    bits ^= (bits[:, :, 0] ^ bits[:, :, 1]).mul_(swap).unsqueeze(2)
    return x


def _places(x, steps, back=False):
    """Where each sample of the shifted row comes from, (tokens, channels), in a row of so many."""
    make = _make_places if compiling() else _cached_places
    return make(x.shape[1], steps, back, x.device)


@lru_cache(maxsize=64)  # the table of a long sequence is large
def _cached_places(tokens, steps, back, device):
    with torch.inference_mode(False):  # what is made within could not be saved for a gradient
        return _make_places(tokens, steps, back, device)


def _make_places(tokens, steps, back, device):
    step = torch.tensor(steps, device=device)
    token = torch.arange(tokens, device=device)[:, None]
    token = (token + step if back else token - step) % tokens
    return token * len(steps) + torch.arange(len(steps), device=device)


TRITON = dict(
    # Triton's interpreter, which tests turn on, runs on tensors of the CPU.
    devices=("cuda", "cpu") if os.environ.get("TRITON_INTERPRET") == "1" else ("cuda",),
    requires="triton",
    dtypes=("float16", "bfloat16", "float32"),
    exported=False,
)
NUMPY = dict(
    devices=("cpu",),
    dtypes=("float16", "bfloat16", "float32", "int8", "int16", "int32", "uint8"),
    exported=False,
    ragged=True,
)


def sorting(op):
    """Rows of an op that sorts: pairs are only compared, and NumPy sorts faster than PyTorch."""
    yield Row(op, "triton", permute_by_triton, max_group=4096, **TRITON)
    yield Row(op, "native", permute, group_sizes=(1, 2))
    yield Row(op, "numpy", partial(permute, sort=groups.by_numpy), **NUMPY)
    yield Row(op, "sort", permute)


ROWS = (
    Row("channel_shift", "triton", permute_by_triton, **TRITON),
    Row("channel_shift", "native", permute),
    *(row for op in SORTING for row in sorting(op)),
    Row("damped_ema", "chunked", damped_ema, masks=True, dynamic=True),
    Row("damped_ema", "fft", ema.fft, masks=True, dynamic=True),
    Row("max_exchange", "native", max_exchange),
)
