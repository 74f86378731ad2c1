"""Groups of two: no sort is needed. A last token without a partner stays where it is."""

import torch

from keras_permix.ops.backend.torch.keys import BITS
from keras_permix.ops.backend.torch.runtime import compiling

PIECE = 1 << 18  # values


def order(x, leader, lengths):
    """Mark the pairs to swap: those that descend, or that differ in this from the leader's.

    Of every sample only the first `lengths` tokens count.
    """
    marked = _descends(x)
    if leader is not None:
        marked ^= _descends(leader)
    if lengths is None:
        return marked
    if not isinstance(lengths, tuple):
        return marked & (torch.arange(1, x.shape[1], 2, device=x.device)[:, None] < lengths)
    for sample, length in zip(marked, lengths, strict=True):
        sample[length // 2 :] = False
    return marked


def _descends(x):
    whole = x.shape[1] // 2 * 2
    return x[:, 1:whole:2] < x[:, :whole:2]


def swap_(x, marked):
    """Change the places of the pairs that are marked: on a processor in `x` itself, but for graphs.

    PyTorch does not vectorize `where`, but it does so for bits: a ^ (a ^ b) is b.
    """
    whole = 2 * marked.shape[1]
    pairs = x[:, :whole].unflatten(1, (-1, 2))
    if compiling() or not x.is_cpu:
        swapped = torch.where(marked.unsqueeze(2), pairs.flip(2), pairs).flatten(1, 2)
        return torch.cat((swapped, x[:, whole:]), 1)
    for bits, marks in _pieces(pairs.view(BITS[x.element_size()]), marked):
        bits ^= (bits[:, 0] ^ bits[:, 1]).mul_(marks).unsqueeze(1)
    return x


def _pieces(pairs, marked):
    """Yield views that are small enough for the cache of a processor."""
    if pairs.stride(0) == pairs.shape[1] * pairs.stride(1):
        pairs, marked = pairs.flatten(0, 1)[None], marked.flatten(0, 1)[None]
    size = max(1, PIECE // (2 * pairs.shape[3]))
    for sample, marks in zip(pairs, marked, strict=True):
        yield from zip(sample.split(size), marks.split(size), strict=True)
