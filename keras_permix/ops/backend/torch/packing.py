"""Real tokens in front, in order: where the ops work, whatever the mask looks like.

Where the data are at hand, lengths are Python integers, and what is real already stands in front
stays where it is. In graphs they are a tensor.
"""

from typing import NamedTuple

import numpy as np
import torch

from keras_permix.ops.backend.torch.runtime import at_hand

BITS = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}  # by bytes


class Packing(NamedTuple):
    """Describe a mask, (batch, tokens)."""

    real: torch.Tensor  # the mask as booleans
    lengths: tuple | torch.Tensor  # real tokens of every sample; in graphs (batch, 1, 1)
    places: torch.Tensor | None  # where every token goes, (batch, tokens); None: all stay


def read(mask, x):
    """Return the packing of the tokens of `x` by a mask."""
    real = mask.to(x.device).bool()
    ones = real.long()  # ONNX adds up no booleans
    lengths, token = ones.sum(1, keepdim=True), torch.arange(x.shape[1], device=x.device)
    places = torch.where(real, ones.cumsum(1), lengths + (1 - ones).cumsum(1)) - 1
    if not at_hand(x):
        return Packing(real, lengths[:, None], places)
    stay = torch.equal(real, token < lengths)
    return Packing(real, tuple(lengths.flatten().tolist()), None if stay else places)


def to_front(x, packing):
    if packing is None or packing.places is None:
        return x
    if at_hand(x):
        return _compress(x, packing)
    places = packing.places
    token = torch.arange(x.shape[1], device=x.device).expand_as(places)
    return _take_tokens(x, torch.empty_like(places).scatter_(1, places, token))


def to_places(x, packing):
    """Back from the front, with zeros for what is not real; may change `x`."""
    if packing is None:
        return x
    if packing.places is not None and at_hand(x):
        return _expand(x, packing)
    return clear_(x if packing.places is None else _take_tokens(x, packing.places), packing.real)


def _compress(x, packing):
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
    """Set to zero what is not real: in `x` itself, but for graphs."""
    if at_hand(x):
        to_bits(x).numpy()[~real.numpy()] = 0
        return x
    return torch.where(real[..., None], x, torch.zeros_like(x))


def _take_tokens(x, source):
    return x.gather(1, source[..., None].expand_as(x))


def to_bits(x):
    """The same memory as integers, which NumPy has for every dtype."""
    return x.detach().view(BITS[x.element_size()])
