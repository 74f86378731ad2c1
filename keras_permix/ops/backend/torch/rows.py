"""What runs on PyTorch.

A permutation is computed without autograd, together with a trace of what the data decided, and
then given its gradient, the inverse permutation. A call that needs no gradient leaves no trace.
"""

import os
from functools import lru_cache

import torch
from torch.autograd.function import once_differentiable

from keras_permix.ops.backend.plan import Plan, plan_csp, plan_slice_sort
from keras_permix.ops.backend.torch import dense, groups
from keras_permix.ops.dispatch.rows import Row
from keras_permix.ops.reference import ema

BOTH = ("independent", "reference")
BITS = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}  # by bytes


def device(x):
    return x.device.type


def compiling():
    return torch.compiler.is_compiling() or torch.jit.is_tracing()


def exporting():
    return torch.compiler.is_exporting() or torch.jit.is_tracing()


def channel_shift(x, mask, *, steps):
    return _permute(x, Plan(steps, group_size=1), None)


def csp(x, mask, *, steps, group_size, align, ragged, sort=groups.by_torch):
    return _permute(x, plan_csp(x.shape[1], steps, group_size, align), sort)


def group_sort(x, mask, *, group_size, align, ragged, sort=groups.by_torch):
    return _permute(x, plan_csp(x.shape[1], None, group_size, align), sort)


def slice_sort(x, mask, *, descending, sort=groups.by_torch):
    return _permute(x, plan_slice_sort(x.shape[1], descending), sort)


def numpy_csp(x, mask, **options):
    return csp(x, mask, **options, sort=groups.by_numpy)


def numpy_group_sort(x, mask, **options):
    return group_sort(x, mask, **options, sort=groups.by_numpy)


def numpy_slice_sort(x, mask, **options):
    return slice_sort(x, mask, **options, sort=groups.by_numpy)


def triton_channel_shift(x, mask, *, steps):
    return _permute_by_triton(x, Plan(steps, group_size=1))


def triton_csp(x, mask, *, steps, group_size, align, ragged):
    return _permute_by_triton(x, plan_csp(x.shape[1], steps, group_size, align))


def triton_group_sort(x, mask, *, group_size, align, ragged):
    return _permute_by_triton(x, plan_csp(x.shape[1], None, group_size, align))


def triton_slice_sort(x, mask, *, descending):
    return _permute_by_triton(x, plan_slice_sort(x.shape[1], descending))


def _permute_by_triton(x, plan):
    from keras_permix.ops.backend.torch.triton import functions  # which imports Triton

    return functions.permute(x, plan)


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
    aligns=BOTH,
    exported=False,
)
TRITON_SORT = dict(**TRITON, max_group=4096)

NUMPY = dict(
    devices=("cpu",),
    dtypes=("float16", "bfloat16", "float32", "int8", "int16", "int32", "uint8"),
    aligns=BOTH,
    exported=False,
    ragged=True,
)

CONVOLUTION = dict(devices=dense.DEVICES, dtypes=("float32",), dynamic=True, exported=False)

ROWS = (
    Row("channel_shift", "triton", triton_channel_shift, **TRITON),
    Row("channel_shift", "native", channel_shift),
    Row("csp", "triton", triton_csp, **TRITON_SORT),
    Row("csp", "native", csp, group_sizes=(1, 2), aligns=BOTH),
    Row("csp", "numpy", numpy_csp, **NUMPY),
    Row("csp", "sort", csp, aligns=BOTH),
    Row("damped_ema", "chunked", damped_ema, masks=True, dynamic=True),
    Row("damped_ema", "fft", ema.fft, masks=True, dynamic=True),
    Row("dense", "convolution", dense.dense, **CONVOLUTION),
    Row("group_sort", "triton", triton_group_sort, **TRITON_SORT),
    Row("group_sort", "native", group_sort, group_sizes=(1, 2), aligns=BOTH),
    Row("group_sort", "numpy", numpy_group_sort, **NUMPY),
    Row("group_sort", "sort", group_sort, aligns=BOTH),
    Row("slice_sort", "triton", triton_slice_sort, **TRITON_SORT),
    Row("slice_sort", "numpy", numpy_slice_sort, **NUMPY),
    Row("slice_sort", "sort", slice_sort),
    Row("max_exchange", "native", max_exchange),
)
