"""Real tokens in front, in order: where the ops work, whatever the mask looks like.

Where the data are at hand, lengths are Python integers, and what is real already stands in front
stays where it is. In graphs they are a tensor.
"""

from typing import NamedTuple

import torch

from keras_permix.ops.backend.torch.keys import to_bits
from keras_permix.ops.backend.torch.tracing import at_hand


class Packing(NamedTuple):
    """What a mask, (batch, tokens), says."""

    real: torch.Tensor  # the mask as booleans
    lengths: tuple | torch.Tensor  # real tokens of every sample; in graphs (batch, 1, 1)
    places: torch.Tensor | None  # where every token goes, (batch, tokens); None: all stay


def read(mask, x):
    """What `mask` says about the tokens of `x`."""
    real = mask.to(x.device).bool()
    lengths, token = real.sum(1, keepdim=True), torch.arange(x.shape[1], device=x.device)
    places = torch.where(real, real.cumsum(1), lengths + (~real).cumsum(1)) - 1
    if not at_hand(x):
        return Packing(real, lengths[:, None], places)
    stay = torch.equal(real, token < lengths)
    return Packing(real, tuple(lengths.flatten().tolist()), None if stay else places)


def to_front(x, packing):
    if packing is None or packing.places is None:
        return x
    places = packing.places
    token = torch.arange(x.shape[1], device=x.device).expand_as(places)
    return _take_rows(x, torch.empty_like(places).scatter_(1, places, token))


def to_places(x, packing):
    """Back from the front, with zeros for what is not real; may change `x`."""
    if packing is None:
        return x
    return clear_(x if packing.places is None else _take_rows(x, packing.places), packing.real)


def clear_(x, real):
    """Set to zero what is not real: in `x` itself, but for graphs."""
    if at_hand(x):
        to_bits(x).numpy()[~real.numpy()] = 0
        return x
    return torch.where(real[..., None], x, torch.zeros_like(x))


def _take_rows(x, source):
    if at_hand(x):
        start = torch.arange(0, len(x) * x.shape[1], x.shape[1])[:, None]
        return x.flatten(0, 1).index_select(0, (source + start).flatten()).view(x.shape)
    return x.gather(1, source[..., None].expand_as(x))
