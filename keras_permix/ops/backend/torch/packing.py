"""Pack real tokens to the front, in order, in PyTorch.

If the data are readable, lengths are Python integers, and tokens that are already in front are not
moved. In graphs, lengths are a tensor.
"""

from typing import NamedTuple

import numpy as np
import torch

from keras_permix.ops.backend.torch.runtime import at_hand

BITS = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}  # by bytes


class Packing(NamedTuple):
    """Describe a mask, (batch, tokens)."""

    real: torch.Tensor  # the mask as booleans
    lengths: tuple | torch.Tensor  # number of real tokens per sample; in graphs (batch, 1, 1)
    positions: torch.Tensor | None  # new position of every token, (batch, tokens); None: unchanged


def read(mask, x):
    """Return the packing of the tokens of `x` by a mask."""
    real = mask.to(x.device).bool()
    ones = real.long()  # ONNX cannot sum booleans.
    lengths, token = ones.sum(1, keepdim=True), torch.arange(x.shape[1], device=x.device)
    positions = torch.where(real, ones.cumsum(1), lengths + (1 - ones).cumsum(1)) - 1
    if not at_hand(x):
        return Packing(real, lengths[:, None], positions)
    stay = torch.equal(real, token < lengths)
    return Packing(real, tuple(lengths.flatten().tolist()), None if stay else positions)


def to_front(x, packing):
    if packing is None or packing.positions is None:
        return x
    if at_hand(x):
        return _compress(x, packing)
    positions = packing.positions
    token = torch.arange(x.shape[1], device=x.device).expand_as(positions)
    return _take_tokens(x, torch.empty_like(positions).scatter_(1, positions, token))


def to_positions(x, packing):
    """Undo `to_front`, with zeros for padding; may change `x`."""
    if packing is None:
        return x
    if packing.positions is None:
        return clear_(x, packing.real)
    if at_hand(x):
        return _expand(x, packing)
    return clear_(_take_tokens(x, packing.positions), packing.real)


def _compress(x, packing):
    x = x.resolve_conj().resolve_neg()
    out = torch.empty_like(x, memory_format=torch.contiguous_format)
    for sample, front, real, length in _samples(x, out, packing):
        np.compress(real, sample, axis=0, out=front[:length])
    return out


def _expand(x, packing):
    out = torch.empty_like(x, memory_format=torch.contiguous_format)
    for front, sample, real, length in _samples(x, out, packing):
        sample[real] = front[:length]
        sample[~real] = 0
    return out


def _samples(x, out, packing):
    bits = (to_bits(tensor).numpy() for tensor in (x, out))
    return zip(*bits, packing.real.numpy(), packing.lengths, strict=True)


def clear_(x, real):
    """Set padding to zero, in place except in graphs."""
    if at_hand(x):
        to_bits(x).numpy()[~real.numpy()] = 0
        return x
    return torch.where(real[..., None], x, torch.zeros_like(x))


def _take_tokens(x, source):
    return x.gather(1, source[..., None].expand_as(x))


def to_bits(x):
    """View the memory as integers, which NumPy supports for every dtype."""
    return x.detach().view(BITS[x.element_size()])
