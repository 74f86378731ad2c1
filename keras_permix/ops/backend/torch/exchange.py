"""Swap the maximum of every channel with its first token, in PyTorch."""

import torch

from keras_permix.ops.backend.torch.packing import clear_
from keras_permix.ops.backend.torch.runtime import fold


def max_exchange(x, mask):
    real = None if mask is None else mask.to(x.device).bool()
    with torch.no_grad():
        first, winner = _first_and_winner(x, real)
    return _Exchange.apply(x, first, winner, real)


def _first_and_winner(x, real):
    """Return the two tokens to swap, both (batch, 1, channels)."""
    if real is None:
        winner = x.argmax(dim=1, keepdim=True)
        return torch.zeros_like(winner), winner
    first = real.int().argmax(dim=1)[:, None, None].expand(-1, 1, x.shape[2])
    # Padding repeats the first real token, which wins if padding does.
    winner = torch.where(real[..., None], x, x.gather(1, first)).argmax(dim=1, keepdim=True)
    won = real[..., None].expand_as(x).gather(1, winner)
    return first, torch.where(won, winner, first)


class _Exchange(torch.autograd.Function):
    """Swap two tokens; the swap is its own gradient."""

    @staticmethod
    def forward(x, first, winner, real):
        top, bottom = x.gather(1, winner), x.gather(1, first)
        out = x.scatter(1, winner, bottom).scatter_(1, first, top)
        return out if real is None else clear_(out, real)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs[1:])

    @staticmethod
    def backward(ctx, grad):
        return _Exchange.apply(grad, *ctx.saved_tensors), None, None, None

    @staticmethod
    def vmap(info, dims, *tensors):
        folded, unfold = fold(info, dims, *tensors)
        return unfold(_Exchange.apply(*folded)), 0
