"""Shift every channel by its own step: every value is written once, in rows.

A program has some channels, and takes its tokens in chunks. What a chunk reads lies in another row
for every channel. The program loads whole rows and picks among them; or, where those that it would
need are too many, it fetches value by value: what one load leaves of a cache line, other tokens of
the chunk want. `windows.py` chooses. The gradient is the shift by the opposite steps.
"""

import torch
import triton
import triton.language as tl


@triton.jit
def shift_kernel(
    x,
    out,
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
    x, out = x + sample * tokens * channels, out + sample * tokens * channels
    channel = tile * CHANNELS + tl.arange(0, CHANNELS)[None, :]
    place = tl.arange(0, TOKENS)[:, None]
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
        value = fetch(at, first, second, place, read, inside, TOKENS, BLOCKS)
        tl.store(out + offset(begin + place, channel, channels), value, mask=inside)
        begin += TOKENS
        if BLOCKS == 2:
            first = second


@triton.jit
def program(chunks, tokens, channels, TOKENS: tl.constexpr, CHANNELS: tl.constexpr):
    """Sample, first token and tile of channels; the next program has the next channels."""
    tiles = tl.cdiv(channels, CHANNELS)
    strips = tl.cdiv(tokens, chunks * TOKENS)
    strip = tl.program_id(0) // tiles % strips
    sample = tl.program_id(0) // tiles // strips
    return sample.to(tl.int64), strip * chunks * TOKENS, tl.program_id(0) % tiles


@triton.jit
def arc(start, read, begin, spread, chunks, tokens, TOKENS: tl.constexpr):
    """The first row that a program reads, how many they are, and what channels read from there."""
    start = tl.load(start)
    needed = tl.minimum(chunks * TOKENS, tokens - begin) + spread
    return wrap(begin + start, tokens), needed, wrap(read - start, tokens)


@triton.jit
def load_rows(x, row, needed, tokens, channel, channels, TOKENS: tl.constexpr, HELD: tl.constexpr):
    """A block of rows, from `row` on around the circle of tokens, if it is to be held."""
    if HELD:
        place = tl.arange(0, TOKENS)[:, None]
        source = x + offset(wrap(row + place, tokens), channel, channels)
        block = tl.load(source, mask=(place < needed) & (channel < channels), other=0.0)
    else:
        block = 0.0
    return block


@triton.jit
def fetch(at, first, second, place, read, inside, TOKENS: tl.constexpr, BLOCKS: tl.constexpr):
    """What the tokens at `place` of a chunk read: from memory, or from the blocks of rows."""
    x, begin, tokens, channel, channels = at
    if BLOCKS == 0:
        source = wrap(begin + place + read, tokens)
        value = tl.load(x + offset(source, channel, channels), mask=inside, other=0.0)
    elif BLOCKS == 1:
        value = tl.gather(first, wrap(place + read, tokens) % TOKENS, 0)
    else:
        value = tl.gather(first, (place + read) % TOKENS, 0)
        value = tl.where(
            place + read < TOKENS, value, tl.gather(second, (place + read) % TOKENS, 0)
        )
    return value


@triton.jit
def offset(token, channel, channels):
    """Where a value is in its sample, of which a long one may have more than 2**31."""
    return token.to(tl.int64) * channels + channel


@triton.jit
def wrap(token, tokens):
    """A token between -tokens and 2 * tokens, modulo tokens."""
    token = tl.where(token < 0, token + tokens, token)
    return tl.where(token < tokens, token, token - tokens)


def launch(kernel, reads, *tensors, **flags):
    """Start a kernel whose programs hold what the window of `reads` says."""
    batch, tokens, channels = tensors[0].shape
    window = reads.window
    strips, tiles = window.programs(tokens, channels)
    sizes = window.spread, window.chunks, tokens, channels
    constants = dict(TOKENS=window.tokens, CHANNELS=window.channels, BLOCKS=window.blocks)
    kernel[(batch * strips * tiles,)](
        *tensors, reads.offsets, reads.starts, *sizes, **constants, **flags, num_warps=window.warps
    )


def shift(x, reads):
    """Shift `x`, (batch, tokens, channels): every channel reads as `reads`, a `Reads`, says."""
    out = torch.empty_like(x)
    launch(shift_kernel, reads, x, out)
    return out
