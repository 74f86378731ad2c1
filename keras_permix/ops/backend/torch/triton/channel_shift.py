"""Shift every channel by its own step.

A program has some tokens of some channels. It holds the rows that these read, loaded in order, and
picks from them in shared memory, as `windows.py` explains. Threads of a warp have channels that lie
side by side, so that neither memory nor shared memory is read in more than one row at a time. The
gradient is the shift by the opposite steps.
"""

import torch
import triton
import triton.language as tl

# Triton would let a thread have 16 bytes of a row, and shared memory is slow to read in that order.
SCALAR = ("channels",)
# What a thread may take. Left to choose, the compiler takes more at times, and fewer programs run.
REGISTERS = 128


@triton.jit(do_not_specialize=SCALAR)
def shift_kernel(
    x,
    out,
    reads,
    starts,
    spread,
    tokens,
    channels,
    TOKENS: tl.constexpr,
    CHANNELS: tl.constexpr,
    HELD: tl.constexpr,
    WIDE: tl.constexpr,
):
    sample, begin, tile = program(tokens, channels, TOKENS, CHANNELS)
    x, out = x + sample * tokens * channels, out + sample * tokens * channels
    channel = tile * CHANNELS + tl.arange(0, CHANNELS)[None, :]
    limit = tl.where(channel < channels, tokens, 0)
    token = begin + tl.arange(0, TOKENS)[:, None]
    read = tl.load(reads + channel, mask=channel < channels, other=0)
    if HELD:
        window = begin, tile, starts, spread, tokens, channels
        number = tl.arange(0, HELD)[:, None]
        held, first = hold(x, number, channel, limit, window, TOKENS, HELD, WIDE)
        row = held_row(token + read, first, begin, tokens, TOKENS, HELD)
        value = pick(held, tl.where(channel < channels, row, 0))
    else:
        source = offset(wrap(token + read, tokens), channel, channels, WIDE)
        value = tl.load(x + source, mask=token < limit, other=0.0)
    tl.store(out + offset(token, channel, channels, WIDE), value, mask=token < limit)


@triton.jit
def program(tokens, channels, TOKENS: tl.constexpr, CHANNELS: tl.constexpr):
    """Sample, first token and tile of channels; the next program has the next channels."""
    tiles, chunks = tl.cdiv(channels, CHANNELS), tl.cdiv(tokens, TOKENS)
    chunk = tl.program_id(0) // tiles % chunks
    sample = tl.program_id(0) // tiles // chunks
    return sample.to(tl.int64), chunk * TOKENS, tl.program_id(0) % tiles


@triton.jit
def hold(
    x,
    number,
    channel,
    limit,
    window,
    TOKENS: tl.constexpr,
    HELD: tl.constexpr,
    WIDE: tl.constexpr,
):
    """The rows of these numbers that a program reads, and the token of number 0."""
    begin, tile, starts, spread, tokens, channels = window
    if HELD == TOKENS:
        first, needed, source = 0, limit, number
    else:
        first = wrap(begin + tl.load(starts + tile), tokens)
        needed = tl.minimum(limit, tl.minimum(TOKENS, tokens - begin) + spread)
        source = wrap(first + number, tokens)
    source = offset(source, channel, channels, WIDE)
    return tl.load(x + source, mask=number < needed, other=0.0), first


@triton.jit
def held_row(source, first, begin, tokens, TOKENS: tl.constexpr, HELD: tl.constexpr):
    """The number of the row that holds a token, given as one from 0 to 2 * tokens."""
    source = wrap(source, tokens)
    return source if HELD == TOKENS else wrap(source - first + tokens, tokens) % HELD


@triton.jit
def pick(held, row):
    """For every value of `row`, that of its channel in this row of `held`."""
    ROWS: tl.constexpr = held.shape[0]
    CHANNELS: tl.constexpr = held.shape[1]
    PICKED: tl.constexpr = row.shape[0] * CHANNELS
    # In one dimension: in two, Triton would move the values between threads first.
    at = tl.reshape(row * CHANNELS + tl.arange(0, CHANNELS)[None, :], (PICKED,))
    values = tl.gather(tl.reshape(held, (ROWS * CHANNELS,)), at, 0)
    return tl.reshape(values, (row.shape[0], CHANNELS))


@triton.jit
def offset(token, channel, channels, WIDE: tl.constexpr):
    """Where a value is in its sample."""
    return (token.to(tl.int64) if WIDE else token) * channels + channel


@triton.jit
def wrap(token, tokens):
    """A token from 0 to 2 * tokens, modulo tokens."""
    once = (token - tokens).to(tl.uint32, bitcast=True)
    return tl.minimum(token.to(tl.uint32, bitcast=True), once).to(tl.int32, bitcast=True)


def launch(kernel, reads, *tensors, **flags):
    """Start a kernel whose programs hold what the window of `reads` says."""
    batch, tokens, channels = tensors[0].shape
    window = reads.window
    constants = dict(TOKENS=window.tokens, CHANNELS=window.channels, HELD=window.held)
    kernel[(batch * window.programs(tokens, channels),)](
        *tensors, reads.offsets, reads.starts, window.spread, tokens, channels, **constants,
        WIDE=tokens * channels >= 2**31, **flags, num_warps=window.warps,
        maxnreg=REGISTERS,
    )  # fmt: skip


def shift(x, reads):
    """Shift `x`, (batch, tokens, channels): every channel reads as `reads`, a `Reads`, says."""
    out = torch.empty_like(x)
    launch(shift_kernel, reads, x, out)
    return out
