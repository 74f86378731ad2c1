"""Sort every channel in groups of up to 16,384 tokens, and undo it, in one pass each.

A program sorts some groups of some channels by `network.py`. Floats become integers of the same
order. If a gradient is needed, the low bits of the integers hold the position, which makes the sort
stable. The residuals are the positions in the group, in one or two bytes. The gradient sorts by
them.
"""

from typing import NamedTuple

import triton
import triton.language as tl

from keras_permix.ops.backend.plan import power_of_two
from keras_permix.ops.backend.triton.network import number_of, sort
from keras_permix.ops.backend.triton.shift import (
    SCALAR,
    Program,
    pick,
    program,
    row_offset,
    token_at,
)
from keras_permix.ops.backend.triton.windows import ALL, WIDEST


class Tile(NamedTuple):
    """Describe the part that one program sorts."""

    length: int  # of a group, rounded up to a power of two
    groups: int
    channels: int
    warps: int

    @property
    def rows(self):
        """Return the number of rows that the threads of a program cover at once."""
        return 32 * self.warps // self.channels


def tile_for(group_size, words):
    """Return a tile with 16 to 32 values of `words` 32-bit words per thread, without a stack."""
    length = power_of_two(group_size)
    values = 8192 if length <= 256 else 16384 // words
    channels = max(1, min(WIDEST, values // length))
    groups = max(1, values // 4 // (length * channels))
    values = groups * length * channels
    return Tile(length, groups, channels, warps=min(16, max(1, values * words // 1024)))


@triton.jit(do_not_specialize=SCALAR)
def sort_groups_kernel(
    x,
    out,
    positions,
    descending,
    reference,
    order,
    lengths,
    tokens,
    channels,
    group_size,
    LENGTH: tl.constexpr,
    GROUPS: tl.constexpr,
    CHANNELS: tl.constexpr,
    ROWS: tl.constexpr,
    WIDE: tl.constexpr,
    RESIDUALS: tl.constexpr,
):
    sample, begin, position, channel, within, real = lines(
        lengths, tokens, channels, group_size, LENGTH, GROUPS, CHANNELS, ROWS
    )
    start, inside = sample * tokens * channels + channel, within & (channel < channels)
    loaded = inside
    if order is not None:
        order += sample * tokens
        if not RESIDUALS:  # With residuals, this would take more instructions.
            loaded = real & (channel < channels)
    source = row_offset(token_at(order, begin + position, within), channels, WIDE)
    value = tl.load(x + start + source, mask=loaded, other=0.0)
    BITS: tl.constexpr = value.dtype.primitive_bitwidth
    NARROW: tl.constexpr = tl.int32 if BITS == 32 else tl.int16
    LAST: tl.constexpr = 2 ** (BITS - 1) - 1
    key = mirror(value.to(NARROW, bitcast=True), LAST)
    if RESIDUALS:
        # -0.0, whose key is -1, must equal 0.0; a bit below the position stores the sign.
        minus_zero = key == -1
        key = tl.where(minus_zero, 0, key)
        key = tl.where(real, key, LAST).to(tl.int64 if BITS == 32 else tl.int32)
        key = (key << BITS) | (2 * position + minus_zero)
    else:
        key = tl.where(real, key, LAST).to(tl.int32)
    if descending is not None:  # Padding still sorts last.
        flip = tl.load(descending + channel, mask=channel < channels, other=0) != 0
        key = tl.where(real, tl.where(flip, ~key, key), 2 ** (key.dtype.primitive_bitwidth - 1) - 1)
    key = sort(key, LENGTH, ROWS)
    if descending is not None:
        key = tl.where(flip, ~key, key)
    if RESIDUALS:
        minus_zero = (key & 1) != 0
        origin = (key.to(NARROW).to(tl.int32) & LAST) >> 1
        if descending is not None:
            origin = tl.where(real, origin, position)
        key = tl.where(minus_zero, -1, (key >> BITS).to(NARROW))
    else:
        key = key.to(NARROW)
    value = mirror(key, LAST).to(value.dtype, bitcast=True)
    target = position
    if reference is not None:
        at = reference + sample * tokens + begin + position
        target = tl.load(at, mask=within, other=0).to(tl.int32)
    token = begin + target
    if order is not None:
        value = tl.where(real, value, tl.zeros(value.shape, value.dtype))
        # Loaded again, which takes fewer registers than keeping it.
        token = tl.load(order + token, mask=within, volatile=reference is None)
    tl.store(out + start + row_offset(token, channels, WIDE), value, mask=inside)
    if RESIDUALS:
        target = row_offset(begin + target, channels, WIDE)
        tl.store(positions + start + target, origin.to(positions.dtype.element_ty), mask=inside)


@triton.jit(do_not_specialize=SCALAR)
def put_back_kernel(
    grad,
    out,
    positions,
    order,
    lengths,
    tokens,
    channels,
    group_size,
    LENGTH: tl.constexpr,
    GROUPS: tl.constexpr,
    CHANNELS: tl.constexpr,
    ROWS: tl.constexpr,
    WIDE: tl.constexpr,
):
    sample, begin, position, channel, within, real = lines(
        lengths, tokens, channels, group_size, LENGTH, GROUPS, CHANNELS, ROWS
    )
    start, inside = sample * tokens * channels + channel, within & (channel < channels)
    loaded = inside  # The rest, including padding, is 0 and sorts last.
    if order is not None:
        order += sample * tokens
        loaded = real & (channel < channels)
    source = row_offset(begin + position, channels, WIDE)
    origin = tl.load(positions + start + source, mask=loaded, other=LENGTH - 1).to(tl.int32)
    token = row_offset(token_at(order, begin + position, within), channels, WIDE)
    value = tl.load(grad + start + token, mask=loaded, other=0.0)
    BITS: tl.constexpr = value.dtype.primitive_bitwidth
    if BITS == 16:
        low = value.to(tl.int16, bitcast=True).to(tl.int32) & 0xFFFF
        key = sort((origin << 16) | low, LENGTH, ROWS)
        value = key.to(tl.int16).to(value.dtype, bitcast=True)
    else:
        row = tl.arange(0, LENGTH * GROUPS)[:, None]
        key = sort((origin << 16) | row, LENGTH, ROWS)
        value = pick(value, key & 0xFFFF)
    tl.store(out + start + token, value, mask=inside)


@triton.jit
def lines(
    lengths,
    tokens,
    channels,
    group_size,
    LENGTH: tl.constexpr,
    GROUPS: tl.constexpr,
    CHANNELS: tl.constexpr,
    ROWS: tl.constexpr,
):
    """Return a program's sample, the first positions of its groups, its positions and its channels.

    The last two results are True at rows inside the sample, and at rows with real tokens.
    """
    groups = tl.cdiv(tokens, group_size)
    sample, begin, tile = program(groups, channels, GROUPS, CHANNELS)
    channel = tile * CHANNELS + tl.arange(0, CHANNELS)[None, :]
    index = number_of(tl.arange(0, LENGTH * GROUPS)[:, None], LENGTH * GROUPS, ROWS)
    position, first = index % LENGTH, (begin + index // LENGTH) * group_size
    real = position < group_size
    within = real & (first + position < tokens)
    if lengths is not None:
        real = real & (first + position < tl.load(lengths + sample))
    return sample, first, position, channel, within, real


@triton.jit
def mirror(bits, LAST: tl.constexpr):
    """Reverse the order of the bits of negative floats; the mapping is its own inverse."""
    return tl.where(bits < 0, bits ^ LAST, bits)


def sort_groups(
    run, x, group_size, real=ALL, *, descending=None, aligned=False, with_residuals=False
):
    """Sort `x` in groups of tokens, or give them the ranks of channel 0 if `aligned`.

    `x`, contiguous floats (batch, tokens, channels), has complete groups unless it is masked.
    `descending`, (channels,) of int8, is 1 for descending channels. `run` is explained in
    `Program`. Returns a tensor like `x` and, if `with_residuals`, the original position of every
    value in its group, uint8 or int16; otherwise None.
    """
    reference = None
    if aligned:
        reference = sort_groups(run, x[..., :1], group_size, real, with_residuals=True)[1]
    words = 2 if with_residuals and x.dtype.itemsize == 4 else 1
    program = sorting_program(
        sort_groups_kernel, x.shape, group_size, words, RESIDUALS=with_residuals
    )
    arrays = dict(x=x, descending=descending, reference=reference, **real._asdict())
    out = {"out": (x.shape, x.dtype)}
    if not with_residuals:
        return *run(program, {**arrays, "positions": None}, out), None
    return run(program, arrays, {**out, "positions": positions_of(x.shape, group_size)})


def sorting_program(kernel, shape, group_size, words, tile=None, **flags):
    """Return the `Program` of a sorting kernel for values of `words` words."""
    batch, tokens, channels = shape
    tile = tile or tile_for(group_size, words)
    arguments = dict(
        tokens=tokens, channels=channels, group_size=group_size, LENGTH=tile.length,
        GROUPS=tile.groups, CHANNELS=tile.channels, ROWS=tile.rows,
        WIDE=tokens * channels >= 2**31, **flags,
    )  # fmt: skip
    groups = -(-tokens // group_size)
    blocks = -(-groups // tile.groups) * -(-channels // tile.channels)
    return Program(kernel, batch * blocks, tile.warps, arguments)


def positions_of(shape, group_size):
    """Return the shape and dtype of the positions from `sort_groups`."""
    return shape, "uint8" if group_size <= 256 else "int16"


def put_back(run, grad, positions, group_size, real=ALL):
    """Undo `sort_groups` by its positions."""
    words = grad.dtype.itemsize // 2
    program = sorting_program(put_back_kernel, grad.shape, group_size, words)
    arrays = dict(grad=grad, positions=positions, **real._asdict())
    [out] = run(program, arrays, {"out": (grad.shape, grad.dtype)})
    return out
