"""Shift every channel, and sort it in groups of up to 4096 tokens: one pass.

A program sorts some lines, a line being one group of one channel, in a bitonic network: O(n log² n)
comparisons of integers that are in registers and shared memory. Floats become integers of the same
order. Where the gradient will ask, an integer of twice the width holds the value above its place,
and so a network, which is not stable, sorts stably. The trace is that place in the group, in one
byte or two; the gradient sends every value back there.
"""

from dataclasses import dataclass

import torch
import triton
import triton.language as tl

from keras_permix.ops.backend.torch.triton.channel_shift import offset, wrap

TOKENS, CHANNELS = 64, 32  # that a program puts back
# What a thread may take. Left to choose, the compiler takes 64 at times, and spills for it.
REGISTERS = 128


@dataclass(frozen=True)
class Tile:
    """What one program sorts: lines of `length` values, a power of two."""

    length: int
    lines: int
    warps: int


def tile_for(group_size):
    """2048 values per program, 4096 at most: 8 or 16 per thread, which need no stack."""
    length = triton.next_power_of_2(group_size)
    warps = 4 if length < 256 else 8 if length < 4096 else 16
    return Tile(length, lines=max(1, 2048 // length), warps=warps)


@triton.jit
def sort_groups_kernel(
    x,
    out,
    places,
    steps,
    descending,
    leader,
    tokens,
    channels,
    group_size,
    LENGTH: tl.constexpr,
    LINES: tl.constexpr,
    SHIFTED: tl.constexpr,
    DESCENDING: tl.constexpr,
    ALIGNED: tl.constexpr,
    TRACED: tl.constexpr,
):
    lines = tokens // group_size * channels
    blocks = tl.cdiv(lines, LINES)
    sample = tl.program_id(0) // blocks
    line = tl.program_id(0) % blocks * LINES + tl.arange(0, LINES)[:, None]
    channel = line % channels
    start = line // channels * group_size
    place = tl.arange(0, LENGTH)[None, :]
    inside = (place < group_size) & (line < lines)
    source = start + place
    if SHIFTED:
        source = wrap(source - tl.load(steps + channel), tokens)
    base = sample.to(tl.int64) * tokens * channels
    value = tl.load(x + base + offset(source, channel, channels), mask=inside, other=0.0)
    value, origin = sort_lines(value, place, place < group_size, TRACED)
    target = tl.broadcast_to(place, (LINES, LENGTH))
    if ALIGNED:
        first = sample.to(tl.int64) * tokens + start
        target = tl.load(leader + first + place, mask=inside, other=0).to(tl.int32)
    if DESCENDING:
        target = tl.where(tl.load(descending + channel) != 0, group_size - 1 - target, target)
    target = base + offset(start + target, channel, channels)
    tl.store(out + target, value, mask=inside)
    if TRACED:
        tl.store(places + target, origin.to(places.dtype.element_ty), mask=inside)


@triton.jit
def sort_lines(value, place, real, TRACED: tl.constexpr):
    """Sort along axis 1, with what is not real behind; and where it came from, if traced."""
    BITS: tl.constexpr = value.dtype.primitive_bitwidth
    NARROW: tl.constexpr = tl.int32 if BITS == 32 else tl.int16
    LAST: tl.constexpr = 2 ** (BITS - 1) - 1
    key = mirror(value.to(NARROW, bitcast=True), LAST)
    if TRACED:
        # -0.0, whose key is -1, is to equal 0.0; a bit below the place remembers it.
        minus_zero = key == -1
        key = tl.where(minus_zero, 0, key)
        key = tl.where(real, key, LAST).to(tl.int64 if BITS == 32 else tl.int32)
        key = tl.sort((key << BITS) | (2 * place + minus_zero), 1)
        minus_zero = (key & 1) != 0
        origin = (key.to(NARROW).to(tl.int32) & LAST) >> 1
        key = tl.where(minus_zero, -1, (key >> BITS).to(NARROW))
    else:
        origin = place
        key = tl.sort(tl.where(real, key, LAST).to(tl.int32), 1)
    return mirror(key.to(NARROW), LAST).to(value.dtype, bitcast=True), origin


@triton.jit
def mirror(bits, LAST: tl.constexpr):
    """Negative floats ascend as their integers descend; the mapping is its own inverse."""
    return tl.where(bits < 0, bits ^ LAST, bits)


@triton.jit
def put_back_kernel(
    grad,
    out,
    places,
    steps,
    tokens,
    channels,
    group_size,
    TOKENS: tl.constexpr,
    CHANNELS: tl.constexpr,
    SHIFTED: tl.constexpr,
):
    program, strips = tl.program_id(0), tl.cdiv(channels, CHANNELS)
    sample = (program // strips // tl.cdiv(tokens, TOKENS)).to(tl.int64) * tokens * channels
    token = program // strips % tl.cdiv(tokens, TOKENS) * TOKENS + tl.arange(0, TOKENS)[:, None]
    channel = program % strips * CHANNELS + tl.arange(0, CHANNELS)[None, :]
    inside = (token < tokens) & (channel < channels)
    here = sample + offset(token, channel, channels)
    place = tl.load(places + here, mask=inside, other=0).to(tl.int32)
    target = token // group_size * group_size + place
    if SHIFTED:
        target = wrap(target - tl.load(steps + channel, mask=channel < channels, other=0), tokens)
    value = tl.load(grad + here, mask=inside)
    tl.store(out + sample + offset(target, channel, channels), value, mask=inside)


def sort_groups(x, steps, group_size, *, descending=None, aligned=False, traced=False):
    """Shift `x` by `steps` unless they are None, and sort it in groups of tokens.

    Args:
        x: Contiguous floats of shape (batch, tokens, channels).
        steps: (channels,), int32 from 0 to tokens - 1, or None.
        group_size: Tokens per group, up to 4096; a divisor of the tokens.
        descending: (channels,), int8, 1 for the channels to reverse, or None.
        aligned: Give the groups the ranks of those of channel 0, whose step is then 0.
        traced: Whether `put_back` will need the second result.

    Returns:
        A tensor like `x`, and the place in its shifted group that every value came from,
        unsigned bytes or int16; or None.
    """
    leader = None
    if aligned:
        leader = sort_groups(x[..., :1].contiguous(), None, group_size, traced=True)[1]
    batch, tokens, channels = x.shape
    out, places = torch.empty_like(x), empty_places(x, group_size) if traced else None
    tile = tile_for(group_size)
    blocks = triton.cdiv(tokens // group_size * channels, tile.lines)
    tables = out, places, steps, descending, leader
    flags = steps is not None, descending is not None, aligned, traced
    sort_groups_kernel[(batch * blocks,)](
        x, *tables, tokens, channels, group_size, tile.length, tile.lines, *flags,
        num_warps=tile.warps, maxnreg=REGISTERS,
    )  # fmt: skip
    return out, places


def empty_places(x, group_size):
    """What `sort_groups` fills with one place per value."""
    return x.new_empty(x.shape, dtype=torch.uint8 if group_size <= 256 else torch.int16)


def sources(places, group_size):
    """The token that every value came from, among those that were shifted."""
    token = torch.arange(places.shape[1], device=places.device)[:, None]
    return token // group_size * group_size + places


def put_back(grad, places, steps, group_size):
    """Bring every value back to where `sort_groups` found it."""
    batch, tokens, channels = grad.shape
    out = torch.empty_like(grad)
    tiles = triton.cdiv(tokens, TOKENS) * triton.cdiv(channels, CHANNELS)
    put_back_kernel[(batch * tiles,)](
        grad, out, places, steps, tokens, channels, group_size, TOKENS, CHANNELS, steps is not None
    )
    return out
