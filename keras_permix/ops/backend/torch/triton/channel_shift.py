"""Shift every channel by its own step: every value is read once and written once.

A program fills a tile of tokens and channels. Its stores are coalesced. Its loads are not, as each
channel reads from rows of its own; but what one load leaves of a cache line, other tokens of the
tile want. The gradient is the shift by the opposite steps.
"""

import torch
import triton
import triton.language as tl

TOKENS = 64
CHANNELS = 32


@triton.jit
def shift_kernel(x, out, steps, tokens, channels, TOKENS: tl.constexpr, CHANNELS: tl.constexpr):
    sample = tl.program_id(0).to(tl.int64) * tokens * channels
    token = tl.program_id(1) * TOKENS + tl.arange(0, TOKENS)[:, None]
    channel = tl.program_id(2) * CHANNELS + tl.arange(0, CHANNELS)[None, :]
    inside = (token < tokens) & (channel < channels)
    source = wrap(token - tl.load(steps + channel, mask=channel < channels, other=0), tokens)
    value = tl.load(x + sample + offset(source, channel, channels), mask=inside)
    tl.store(out + sample + offset(token, channel, channels), value, mask=inside)


@triton.jit
def offset(token, channel, channels):
    """Where a value is in its sample, of which a long one may have more than 2**31."""
    return token.to(tl.int64) * channels + channel


@triton.jit
def wrap(token, tokens):
    """A token between -tokens and 2 * tokens, modulo tokens."""
    token = tl.where(token < 0, token + tokens, token)
    return tl.where(token < tokens, token, token - tokens)


def tiles(x):
    """The programs that cover `x`, one for a tile of TOKENS × CHANNELS."""
    batch, tokens, channels = x.shape
    return batch, triton.cdiv(tokens, TOKENS), triton.cdiv(channels, CHANNELS)


def shift(x, steps):
    """Shift `x`, (batch, tokens, channels), by `steps`, (channels,), int32 from 0 to tokens - 1."""
    out = torch.empty_like(x)
    shift_kernel[tiles(x)](x, out, steps, *x.shape[1:], TOKENS, CHANNELS)
    return out
