"""Shift every channel circularly by a separate step, (batch, tokens, channels), in PyTorch."""

from collections import OrderedDict
from functools import partial
from threading import Lock

import torch

from keras_permix.ops.backend.plan import remainders
from keras_permix.ops.backend.torch.runtime import compiling, has_data, recorded

CACHED = 128 << 20  # bytes; enough for shifts by 256 steps of 65,536 tokens and back


def shift(x, plan, lengths=None, back=False):
    """Shift `x`, or the first `lengths` tokens of each sample."""
    if plan.steps is None:
        return x
    if lengths is None:
        make = partial(TABLES.get, _positions) if has_data(x) else _positions
        positions = make(x.shape[1], plan, back, x.device)
        if compiling():
            return x.flatten(1).index_select(1, positions).view(x.shape)
        out = torch.empty_like(x, memory_format=torch.contiguous_format)
        torch.index_select(x.flatten(1), 1, positions, out=out.flatten(1))
        return out  # not a view, so that callers may change it in place
    if isinstance(lengths, tuple):
        lengths = torch.tensor(lengths)[:, None, None]
    return x.gather(1, _sources(x, plan, lengths, back))


def _positions(tokens, plan, back, device):
    """Return the source of each of `tokens * channels` values of a shifted sample."""
    tokens, token = max(tokens, 1), torch.arange(tokens, device=device)[:, None]
    source = (token - remainders_of(plan, tokens, tokens, back, device)) % tokens
    channels = source.shape[1]
    positions = (source * channels + torch.arange(channels, device=device)).flatten()
    small = not compiling() and tokens * channels < 2**31
    return positions.int() if small else positions


def _sources(x, plan, lengths, back):
    """Return the source of each of `lengths`, (batch, 1, 1), tokens; padding stays in place."""
    token, lengths = torch.arange(x.shape[1], device=x.device)[:, None], lengths.clamp(min=1)
    source = token - remainders_of(plan, lengths, x.shape[1], back, x.device)
    source = torch.where(source < 0, source + lengths, source)
    return torch.where(token < lengths, source, token)


def remainders_of(plan, lengths, most, back, device):
    """Return steps (..., channels) modulo numbers of tokens, an integer or a tensor (..., 1)."""
    steps = plan.steps
    if not isinstance(steps, tuple):  # a schedule
        if not isinstance(lengths, torch.Tensor):
            lengths = torch.full((1,), lengths, device=device)
        steps = steps.steps_for(lengths.int(), most)
    if isinstance(steps, tuple):
        cached = isinstance(lengths, torch.Tensor) and has_data(lengths)
        make = partial(TABLES.get, _to_device) if cached else _to_device  # a copy waits for the GPU
        steps = (0, *steps[1:]) if plan.aligned else steps  # channel 0 is not shifted
        steps = tuple(-step for step in steps) if back else steps
        to_tensor = partial(make, device)
        return remainders(steps, lengths, to_tensor, bits=63, digit=31)  # up to 2**32 tokens
    rest = -steps.to(device) % lengths if back else steps.to(device) % lengths
    return rest * (torch.arange(rest.shape[-1], device=device) >= int(plan.aligned))


def _to_device(device, numbers):
    return torch.tensor(numbers, device=device)


class Cache:
    """Cache the latest tensors by their arguments, within a limit of bytes.

    Tensors that a CUDA graph reads are kept, because it may be replayed.
    """

    def __init__(self, limit):
        self.limit, self.held, self.entries, self.lock = limit, 0, OrderedDict(), Lock()
        self.recorded = {}

    def get(self, make, *arguments):
        key = (make, *arguments)
        with self.lock:
            found = self.entries.get(key, self.recorded.get(key))
            if found is not None:
                if key in self.entries:
                    self.entries.move_to_end(key)
                if recorded(found):
                    self.recorded[key] = found
                return found
        with torch.inference_mode(False):  # Inference tensors cannot be saved for a gradient.
            made = make(*arguments)
        with self.lock:
            if made.nbytes <= self.limit and key not in self.entries:
                self.entries[key] = made
                self.held += made.nbytes
            while self.held > self.limit:
                self.held -= self.entries.popitem(last=False)[1].nbytes
        return made


TABLES = Cache(CACHED)
