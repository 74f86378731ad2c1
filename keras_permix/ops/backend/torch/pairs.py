"""Sort groups of two, by comparing and swapping pairs; a last token without a partner stays."""

import torch

from keras_permix.ops.backend.torch.packing import to_bits
from keras_permix.ops.backend.torch.runtime import compiling


def order(x, reference, lengths):
    """Mark the pairs to swap: descending ones, or those that differ from a reference channel.

    Only the first `lengths` tokens of every sample are real.
    """
    marked = _descends(x)
    if reference is not None:
        marked ^= _descends(reference)
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


def swap(x, marked):
    """Swap the marked pairs."""
    whole = 2 * marked.shape[1]
    if compiling():
        pairs = x[:, :whole].unflatten(1, (-1, 2))
        swapped = torch.where(marked.unsqueeze(2), pairs.flip(2), pairs).flatten(1, 2)
        return torch.cat((swapped, x[:, whole:]), 1)
    # Without a compiler, `torch.where` takes many times as long as operations on bits.
    x = x.resolve_neg()
    out = torch.empty_like(x, memory_format=torch.contiguous_format)
    bits, swapped = (to_bits(t)[:, :whole].unflatten(1, (-1, 2)) for t in (x, out))
    differing = (bits[:, :, 0] ^ bits[:, :, 1]) * marked
    torch.bitwise_xor(bits, differing.unsqueeze(2), out=swapped)
    out[:, whole:] = x[:, whole:]
    return out
