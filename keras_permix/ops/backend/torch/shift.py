"""Circular shifts of every channel by its own step, (batch, tokens, channels), in PyTorch."""

from collections import OrderedDict
from functools import partial
from threading import Lock

import torch

from keras_permix.ops.backend.plan import remainders
from keras_permix.ops.backend.torch.keys import to_bits
from keras_permix.ops.backend.torch.runtime import has_data, recorded

CACHED = 64 << 20  # bytes of tables
FEW = 4  # different steps in a batch for which tables are worth keeping
REPEATED = 4  # times the tokens, in which a sample is laid out for a shared table


def shift(x, plan, lengths=None, back=False):
    """Shift `x`, or the first `lengths` tokens of each sample, what lies behind being undefined."""
    if plan.steps is None:
        return x
    if isinstance(lengths, tuple):
        return _shift_each(x, plan, lengths, back)
    if lengths is not None:
        return x.gather(1, _sources(x, plan, lengths, back))
    return _take(x, _table(_places, x.shape[1], plan, back, x))


def _take(x, places):
    """Gather samples by their places, token by token: all cores share even a single sequence.

    PyTorch's other ways, `index_select` and `gather` from flat samples, take up to twice the time.
    """
    flat = x.flatten(1).unsqueeze(1).expand(-1, places.shape[0], -1)
    return flat.gather(2, places.expand(x.shape[0], -1, -1))


def _shift_each(x, plan, lengths, back):
    """Lay every sample out several times on a strip, where one table serves all lengths.

    Token n of a channel that is shifted by s is then token n - s of the strip, wherever that is.
    """
    x, out = x.contiguous(), torch.empty_like(x, memory_format=torch.contiguous_format)
    tokens, samples = x.shape[1], to_bits(x).numpy()
    every = _steps_each(plan, lengths, tokens, back)
    few = len(set(every)) <= FEW
    strip = x.new_empty(REPEATED * tokens, x.shape[2])
    bits = to_bits(strip).numpy()
    for sample, result, length, steps in zip(samples, out, lengths, every, strict=True):
        if not length:
            continue
        if few and _span(steps) < (REPEATED - 1) * tokens:
            places = TABLES.get(_windows, tokens, steps, x.device)
        else:
            steps = tuple(step % length for step in steps)
            places = _windows(length, steps, x.device)
        filled = length + _span(steps)
        _lay_out(sample[:length], -max(steps), bits[:filled])
        flat = strip[:filled].view(1, -1).expand(length, -1)
        torch.gather(flat, 1, places[:length], out=result[:length])
    return out


def _steps_each(plan, lengths, tokens, back):
    """The steps of every sample, tuples of Python integers of any size."""
    steps = plan.steps
    if not isinstance(steps, tuple):
        steps = steps.steps_for(torch.tensor(lengths, dtype=torch.int32)[:, None], tokens)
    every = [steps] * len(lengths) if isinstance(steps, tuple) else map(tuple, steps.tolist())
    return [_directed(steps, plan.aligned, back) for steps in every]


def _directed(steps, aligned, back):
    steps = (0, *steps[1:]) if aligned else steps  # channel 0 is its own leader
    return tuple(-step for step in steps) if back else steps


def _span(steps):
    return max(steps) - min(steps)


def _lay_out(period, start, out):
    """Repeat a period from `start` on until `out` is full."""
    filled, start = len(period), start % len(period)
    out[: filled - start], out[filled - start : filled] = period[start:], period[:start]
    while filled < len(out):
        more = min(filled, len(out) - filled)
        out[filled : filled + more] = out[:more]
        filled += more


def _windows(tokens, steps, device):
    """Places on a strip that begins `max(steps)` tokens before the first of the sample."""
    first = max(steps)
    step = torch.tensor([first - step for step in steps], device=device)
    return _flat(torch.arange(tokens, device=device)[:, None] + step)


def _places(tokens, plan, back, device):
    """Return places on a strip of `tokens` tokens, in which they are shifted."""
    tokens, token = max(tokens, 1), torch.arange(tokens, device=device)[:, None]
    return _flat((token - remainders_of(plan, tokens, tokens, back, device)) % tokens)


def _flat(token):
    return token * token.shape[1] + torch.arange(token.shape[1], device=token.device)


def _sources(x, plan, lengths, back):
    """Return the source of each of `lengths`, (batch, 1, 1), tokens; padding stays in place."""
    token, lengths = torch.arange(x.shape[1], device=x.device)[:, None], lengths.clamp(min=1)
    source = (token - remainders_of(plan, lengths, x.shape[1], back, x.device)) % lengths
    return torch.where(token < lengths, source, token)


def remainders_of(plan, lengths, most, back, device):
    """Steps modulo numbers of tokens, a number or a tensor of (..., 1): (..., channels)."""
    steps = plan.steps
    if not isinstance(steps, tuple):  # a schedule
        if not isinstance(lengths, torch.Tensor):
            lengths = torch.full((1,), lengths, device=device)
        steps = steps.steps_for(lengths.int(), most)
    if isinstance(steps, tuple):
        to_tensor = partial(torch.tensor, device=device)
        steps = _directed(steps, plan.aligned, back)
        rest = remainders(steps, lengths, to_tensor, bits=63, digit=31)  # up to 2**32 tokens
    else:
        rest = -steps.to(device) % lengths if back else steps.to(device) % lengths
        rest = rest * (torch.arange(rest.shape[-1], device=device) >= int(plan.aligned))
    return rest


class Cache:
    """Cache the latest tensors by their arguments, within a limit of bytes.

    Those that a CUDA graph reads stay, since it may be replayed.
    """

    def __init__(self, limit):
        self.limit, self.held, self.entries, self.lock = limit, 0, OrderedDict(), Lock()
        self.recorded = {}

    def get(self, make, *arguments):
        key = (make, *arguments)
        with self.lock:
            if key in self.entries:
                self.entries.move_to_end(key)
                found = self.entries[key]
                if recorded(found):
                    self.recorded[key] = found
                return found
        with torch.inference_mode(False):  # what is made within could not be saved for a gradient
            made = make(*arguments)
        if made.nbytes <= self.limit:
            self._keep(key, made)
        return made

    def _keep(self, key, made):
        with self.lock:
            if key not in self.entries:
                self.entries[key] = made
                self.held += made.nbytes
            while self.held > self.limit:
                self.held -= self.entries.popitem(last=False)[1].nbytes


TABLES = Cache(CACHED)


def _table(make, tokens, plan, back, x):
    if not has_data(x):
        return make(tokens, plan, back, x.device)
    return TABLES.get(make, tokens, plan, back, x.device)
