"""Shift every channel, and put the two values of every pair of tokens in order: one pass.

A program of the forward kernel takes 32 pairs, so that what the data decided, one bit per pair,
fills one word per channel. These words, 1/64 of float32 values, are all that the gradient needs.
Its kernel gathers as well: every value of the result fetches the one that came from its place.
"""

import torch
import triton
import triton.language as tl

from keras_permix.ops.backend.torch.triton.channel_shift import (
    CHANNELS,
    TOKENS,
    offset,
    tiles,
    wrap,
)

PAIRS = tl.constexpr(TOKENS // 2)  # bits of a word


@triton.jit
def order_pairs_kernel(
    x,
    out,
    swaps,
    steps,
    tokens,
    channels,
    CHANNELS: tl.constexpr,
    SHIFTED: tl.constexpr,
    ALIGNED: tl.constexpr,
    TRACED: tl.constexpr,
):
    sample = tl.program_id(0).to(tl.int64) * tokens * channels
    pair = tl.program_id(1) * PAIRS + tl.arange(0, PAIRS)[:, None]
    channel = tl.program_id(2) * CHANNELS + tl.arange(0, CHANNELS)[None, :]
    inside = (2 * pair < tokens) & (channel < channels)
    first, second = 2 * pair, 2 * pair + 1
    if SHIFTED:
        step = tl.load(steps + channel, mask=channel < channels, other=0)
        first, second = wrap(first - step, tokens), wrap(second - step, tokens)
    a = tl.load(x + sample + offset(first, channel, channels), mask=inside, other=0.0)
    b = tl.load(x + sample + offset(second, channel, channels), mask=inside, other=0.0)
    swap = less(b, a)
    if ALIGNED:
        leader = x + sample + offset(2 * pair, 0, channels)
        a0 = tl.load(leader, mask=2 * pair < tokens, other=0.0)
        b0 = tl.load(leader + channels, mask=2 * pair < tokens, other=0.0)
        swap = swap ^ less(b0, a0)
    place = out + sample + offset(2 * pair, channel, channels)
    tl.store(place, tl.where(swap, b, a), mask=inside)
    tl.store(place + channels, tl.where(swap, a, b), mask=inside)
    if TRACED:
        word = tl.sum(swap.to(tl.int32) << tl.arange(0, PAIRS)[:, None], axis=0)[None, :]
        row = tl.program_id(0).to(tl.int64) * tl.num_programs(1) + tl.program_id(1)
        tl.store(swaps + row * channels + channel, word, mask=channel < channels)


@triton.jit
def less(a, b):
    """Compared in float32, which holds all of them; the interpreter compares bfloat16 as bits."""
    return a.to(tl.float32) < b.to(tl.float32)


@triton.jit
def undo_pairs_kernel(
    grad,
    out,
    swaps,
    steps,
    tokens,
    channels,
    TOKENS: tl.constexpr,
    CHANNELS: tl.constexpr,
    SHIFTED: tl.constexpr,
):
    sample = tl.program_id(0).to(tl.int64) * tokens * channels
    words = tl.program_id(0).to(tl.int64) * tl.num_programs(1) * channels
    token = tl.program_id(1) * TOKENS + tl.arange(0, TOKENS)[:, None]
    channel = tl.program_id(2) * CHANNELS + tl.arange(0, CHANNELS)[None, :]
    inside = (token < tokens) & (channel < channels)
    shifted = token
    if SHIFTED:
        step = tl.load(steps + channel, mask=channel < channels, other=0)
        shifted = wrap(token + step, tokens)
    word = tl.load(swaps + words + offset(shifted // TOKENS, channel, channels), mask=inside)
    swap = (word >> (shifted % TOKENS // 2)) & 1
    value = tl.load(grad + sample + offset(shifted ^ swap, channel, channels), mask=inside)
    tl.store(out + sample + offset(token, channel, channels), value, mask=inside)


def order_pairs(x, steps, *, aligned, traced):
    """Shift `x` by `steps` unless they are None, and order its pairs of tokens.

    Args:
        x: contiguous floats of shape (batch, tokens, channels), the tokens even in number.
        steps: (channels,), int32 from 0 to tokens - 1, or None.
        aligned: order like the pairs of channel 0, whose step is then 0.
        traced: whether `undo_pairs` will need the second result.

    Returns:
        A tensor like `x`, and one bit per pair, True where it was swapped: a word for 32 pairs of a
        channel, (batch, words, channels), int32; or None.
    """
    out, swaps = torch.empty_like(x), empty_swaps(x) if traced else None
    flags = dict(SHIFTED=steps is not None, ALIGNED=aligned, TRACED=traced)
    order_pairs_kernel[tiles(x)](x, out, swaps, steps, *x.shape[1:], CHANNELS, **flags)
    return out, swaps


def empty_swaps(x):
    """What `order_pairs` fills with one bit per pair."""
    return x.new_empty((*tiles(x)[:2], x.shape[2]), dtype=torch.int32)


def swapped(swaps, tokens):
    """The pairs that were swapped, (batch, tokens / 2, channels), booleans."""
    pair = torch.arange(tokens // 2, device=swaps.device)
    words = swaps[:, pair // PAIRS.value]
    return (words >> (pair % PAIRS.value)[:, None] & 1).bool()


def undo_pairs(grad, swaps, steps):
    """Bring every value back to where `order_pairs` found it."""
    out, shifted = torch.empty_like(grad), steps is not None
    undo_pairs_kernel[tiles(grad)](
        grad, out, swaps, steps, *grad.shape[1:], TOKENS, CHANNELS, shifted
    )
    return out
