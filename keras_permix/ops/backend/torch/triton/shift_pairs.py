"""Shift every channel, and put the two values of every pair of tokens in order: one pass.

What the data decided, one bit per pair, fills a word per channel for 32 pairs. These words, 1/64 of
float32 values, are all that the gradient needs. Its kernel reads in the same way, every value of
the result the one that came from its place: where the pair was swapped, the other of the two.
"""

import torch
import triton
import triton.language as tl

from keras_permix.ops.backend.torch.triton.channel_shift import (
    arc,
    fetch,
    launch,
    load_rows,
    offset,
    program,
    wrap,
)
from keras_permix.ops.backend.torch.triton.tables import Reads
from keras_permix.ops.backend.windows import WORD as TOKENS_OF_WORD
from keras_permix.ops.backend.windows import Window

WORD = tl.constexpr(TOKENS_OF_WORD)
PAIRS = tl.constexpr(TOKENS_OF_WORD // 2)  # a bit each


@triton.jit
def order_pairs_kernel(
    x,
    out,
    swaps,
    reads,
    starts,
    spread,
    chunks,
    tokens,
    channels,
    TOKENS: tl.constexpr,
    CHANNELS: tl.constexpr,
    BLOCKS: tl.constexpr,
    SHIFTED: tl.constexpr,
    ALIGNED: tl.constexpr,
    TRACED: tl.constexpr,
):
    sample, begin, tile = program(chunks, tokens, channels, TOKENS, CHANNELS)
    words = sample * tl.cdiv(tokens, WORD) * channels
    x, out = x + sample * tokens * channels, out + sample * tokens * channels
    channel = tile * CHANNELS + tl.arange(0, CHANNELS)[None, :]
    place = 2 * tl.arange(0, TOKENS // 2)[:, None]
    read = 0
    if SHIFTED:
        read = tl.load(reads + channel, mask=channel < channels, other=0)
    row, needed = 0, tokens
    if BLOCKS == 2:
        row, needed, read = arc(starts + tile, read, begin, spread, chunks, tokens, TOKENS)
    first = load_rows(x, row, needed, tokens, channel, channels, TOKENS, BLOCKS > 0)
    second = first
    for _ in range(chunks):
        if BLOCKS == 2:
            row, needed = wrap(row + TOKENS, tokens), needed - TOKENS
            second = load_rows(x, row, needed, tokens, channel, channels, TOKENS, True)
        inside = (begin + place < tokens) & (channel < channels)
        at = x, begin, tokens, channel, channels
        a = fetch(at, first, second, place, read, inside, TOKENS, BLOCKS)
        b = fetch(at, first, second, place + 1, read, inside, TOKENS, BLOCKS)
        swap = less(b, a)
        if ALIGNED:
            leader = x + offset(begin + place, 0, channels)
            a0 = tl.load(leader, mask=begin + place < tokens, other=0.0)
            b0 = tl.load(leader + channels, mask=begin + place < tokens, other=0.0)
            swap = swap ^ less(b0, a0)
        target = out + offset(begin + place, channel, channels)
        tl.store(target, tl.where(swap, b, a), mask=inside)
        tl.store(target + channels, tl.where(swap, a, b), mask=inside)
        if TRACED:
            bits = (swap & inside).to(tl.int32) << (place // 2 % PAIRS)
            word = tl.sum(tl.reshape(bits, (TOKENS // WORD, PAIRS, CHANNELS)), axis=1)
            index = begin // WORD + tl.arange(0, TOKENS // WORD)[:, None]
            here = (index * WORD < tokens) & (channel < channels)
            tl.store(swaps + words + offset(index, channel, channels), word, mask=here)
        begin += TOKENS
        if BLOCKS == 2:
            first = second


@triton.jit
def less(a, b):
    """Compared in float32, which holds all of them; the interpreter compares bfloat16 as bits."""
    return a.to(tl.float32) < b.to(tl.float32)


@triton.jit
def undo_pairs_kernel(
    grad,
    out,
    swaps,
    reads,
    starts,
    spread,
    chunks,
    tokens,
    channels,
    TOKENS: tl.constexpr,
    CHANNELS: tl.constexpr,
    BLOCKS: tl.constexpr,
):
    sample, begin, tile = program(chunks, tokens, channels, TOKENS, CHANNELS)
    swaps += sample * tl.cdiv(tokens, WORD) * channels
    grad, out = grad + sample * tokens * channels, out + sample * tokens * channels
    channel = tile * CHANNELS + tl.arange(0, CHANNELS)[None, :]
    place = tl.arange(0, TOKENS)[:, None]
    from_begin = tl.load(reads + channel, mask=channel < channels, other=0)
    row, needed, read = 0, tokens, from_begin
    if BLOCKS == 2:
        row, needed, read = arc(starts + tile, read, begin, spread, chunks, tokens, TOKENS)
    first = load_rows(grad, row, needed, tokens, channel, channels, TOKENS, BLOCKS > 0)
    second = first
    for _ in range(chunks):
        inside = (begin + place < tokens) & (channel < channels)
        at = grad, begin, tokens, channel, channels
        source = wrap(begin + place + from_begin, tokens)
        word = tl.load(swaps + offset(source // WORD, channel, channels), mask=inside, other=0)
        swap = (word >> (source % WORD // 2)) & 1
        # The other of a pair lies beside it, also around the circle, and in the same block.
        other = swap * (1 - 2 * (source % 2))
        if BLOCKS == 2:
            row, needed = wrap(row + TOKENS, tokens), needed - TOKENS
            second = load_rows(grad, row, needed, tokens, channel, channels, TOKENS, True)
        value = fetch(at, first, second, place, read + other, inside, TOKENS, BLOCKS)
        tl.store(out + offset(begin + place, channel, channels), value, mask=inside)
        begin += TOKENS
        if BLOCKS == 2:
            first = second


def order_pairs(x, reads, *, aligned, traced):
    """Shift `x` as `reads` says unless it is None, and order its pairs of tokens.

    Args:
        x: Contiguous floats of shape (batch, tokens, channels), the tokens even in number.
        reads: A `Reads` for `x`, or None.
        aligned: Order like the pairs of channel 0, which is then not shifted.
        traced: Whether `undo_pairs` will need the second result.

    Returns:
        A tensor like `x`, and one bit per pair, True where it was swapped: a word for 32 pairs of a
        channel, (batch, words, channels), int32; or None.
    """
    out, swaps = torch.empty_like(x), empty_swaps(x) if traced else None
    flags = dict(SHIFTED=reads is not None, ALIGNED=aligned, TRACED=traced)
    launch(order_pairs_kernel, reads or Reads(Window()), x, out, swaps, **flags)
    return out, swaps


def empty_swaps(x):
    """What `order_pairs` fills with one bit per pair."""
    batch, tokens, channels = x.shape
    words = triton.cdiv(tokens, TOKENS_OF_WORD)
    return x.new_empty((batch, words, channels), dtype=torch.int32)


def swapped(swaps, tokens):
    """The pairs that were swapped, (batch, tokens / 2, channels), booleans."""
    pair = torch.arange(tokens // 2, device=swaps.device)
    words = swaps[:, pair // PAIRS.value]
    return (words >> (pair % PAIRS.value)[:, None] & 1).bool()


def undo_pairs(grad, swaps, reads):
    """Bring every value back to where `order_pairs` found it, as `reads`, a `Reads`, says."""
    out = torch.empty_like(grad)
    launch(undo_pairs_kernel, reads, grad, out, swaps)
    return out
