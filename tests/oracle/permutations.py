"""NumPy references of the permutations, one sample and one channel at a time.

They share no code with the package. Ops return sources, an integer array of the shape of `x`: the
input token at each output position, or -1 where the output is 0. Steps are integers, or a function
from the number of real tokens to integers.
"""

import math
import random

import numpy as np


def values(x, sources):
    """Apply the permutation to `x`."""
    out = np.take_along_axis(x, np.maximum(sources, 0), axis=1)
    return np.where(sources < 0, np.zeros_like(x), out)


def gradient(cotangent, sources):
    """Return the gradient for `x`, given the gradient for the result."""
    out = np.zeros_like(cotangent)
    for b, n, c in np.argwhere(sources >= 0):
        out[b, sources[b, n, c], c] += cotangent[b, n, c]
    return out


def schedule(name, channels, layer_index=0, num_layers=1, group_size=2):
    """Return the steps of a schedule as a function of the number of tokens."""
    numbers = [layer_index * channels + c for c in range(channels)]

    def steps(tokens):
        stride, every = math.ceil(tokens / channels), num_layers * channels
        return {
            "linear": [c * stride for c in range(channels)],
            "linear_paper": [(c + 1) * stride for c in range(channels)],
            "linear_code": [group_size * c for c in range(channels)],
            "linear_head": [0] + [group_size * c for c in range(channels - 1)],
            "unit": list(range(channels)),
            "power": [round(tokens ** (g / max(every - 1, 1))) - 1 for g in numbers],
            "power_code": [math.ceil(tokens ** (g / every)) for g in numbers],
            "random": [random.Random(g).getrandbits(30) for g in numbers],
            "zero": [0] * channels,
        }[name]

    return steps


def channel_shift(x, steps, mask=None):
    return csp(x, steps, 1, mask=mask)


def group_sort(x, group_size=None, align="independent", mask=None):
    return csp(x, [0] * x.shape[2], group_size, align, mask)


def csp(x, steps, group_size, align="independent", mask=None):
    def permute(sample, real, channel):
        values = sample[:, channel]
        all_steps = steps(len(real)) if callable(steps) else steps
        step = int(all_steps[channel]) % len(real)
        shifted = [real[(n - step) % len(real)] for n in range(len(real))]
        size = group_size or len(sample)
        result = []
        for start in range(0, len(real), size):
            group = sorted(shifted[start : start + size], key=lambda token: values[token])
            if align == "reference":
                group = _by_ranks(group, sample[real[start : start + size], 0])
            result += group
        return list(real) if align == "reference" and channel == 0 else result

    return _sources(x, mask, permute)


def _by_ranks(group, reference):
    """Move the smallest value to the position of the smallest reference value, and so on."""
    result = list(group)
    for token, position in zip(
        group, sorted(range(len(reference)), key=lambda n: reference[n]), strict=True
    ):
        result[position] = token
    return result


def slice_sort(x, descending=False, mask=None):
    descending = np.broadcast_to(descending, x.shape[2:])

    def permute(sample, real, channel):
        result = sorted(real, key=lambda token: sample[token, channel])
        return result[::-1] if descending[channel] else result

    return _sources(x, mask, permute)


def max_exchange(x, mask=None):
    def permute(sample, real, channel):
        result = list(real)
        winner = max(range(len(real)), key=lambda n: sample[real[n], channel])
        result[0], result[winner] = result[winner], result[0]
        return result

    return _sources(x, mask, permute)


def _sources(x, mask, permute):
    x = x.astype("float64")
    sources = np.full(x.shape, -1)
    for b, sample in enumerate(x):
        real = np.arange(len(sample)) if mask is None else np.flatnonzero(mask[b])
        for channel in range(x.shape[2] if len(real) else 0):
            sources[b, real, channel] = permute(sample, real, channel)
    return sources
