"""Shift every channel by a separate step.

A program computes some tokens of some channels. It loads the rows that these read, and picks from
them in shared memory; see `windows.py`. Threads of a warp hold adjacent channels, so that each
access to memory or shared memory reads a single row. The gradient is the shift by the opposite
steps.
"""

from typing import Any, NamedTuple

import triton
import triton.language as tl

# Otherwise Triton gives each thread 16 bytes of a row, which makes reading shared memory slow.
SCALAR = ("channels",)
# Registers per thread. Without a limit, the compiler may use more, and fewer programs run at once.
REGISTERS = 128


@triton.jit(do_not_specialize=SCALAR)
def shift_kernel(
    x,
    out,
    reads,
    starts,
    order,
    lengths,
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
    length = tokens
    if order is not None:
        order, reads = order_of(order, sample, tokens, TOKENS, HELD), reads + sample * channels
        length = tl.load(lengths + sample)
    channel = tile * CHANNELS + tl.arange(0, CHANNELS)[None, :]
    limit = tl.where(channel < channels, length, 0)
    position = begin + tl.arange(0, TOKENS)[:, None]
    token = token_at(order, position)
    read = tl.load(reads + channel, mask=channel < channels, other=0)
    if HELD:
        window = begin, tile, starts, spread, length
        number = tl.arange(0, HELD)[:, None]
        first, needed, source = held_positions(number, window, limit, TOKENS, HELD)
        KEPT: tl.constexpr = HELD == TOKENS and HELD * CHANNELS <= 8192
        # With more values, each pointer that is kept would take 8 bytes of shared memory.
        source = token if KEPT else token_at(order, source)
        held = load(x, source, channel, number < needed, channels, WIDE)
        row = held_row(position + read, first, length, TOKENS, HELD)
        value = pick_real(held, row, order, position, channel, limit, channels)
    else:
        real = position < limit
        source = token_around(order, position + read, length, tokens, TOKENS)
        value = load(x, source, channel, real, channels, WIDE)
    target = offset(token, channel, channels, WIDE)
    tl.store(out + target, value, mask=(position < tokens) & (channel < channels))


@triton.jit
def order_of(order, sample, tokens, TOKENS: tl.constexpr, HELD: tl.constexpr):
    """Return the pointer to the order of a sample, from `Window.order`."""
    PARTS: tl.constexpr = 1 if HELD else 3
    return order + sample * PARTS * tl.cdiv(tokens, TOKENS) * TOKENS


@triton.jit
def token_at(order, position, mask=None):
    """Return the tokens at positions, or the positions without an order.

    They are undefined where `mask` is False.
    """
    if order is None:
        return position
    else:
        return fetch(order, position, mask)


@triton.jit
def token_around(order, position, length, tokens, TOKENS: tl.constexpr):
    """Return the tokens at positions from 0 to 2 * length of the circle; of padding, any token."""
    if order is None:
        return wrap(position, length)
    else:
        return fetch(order + tl.cdiv(tokens, TOKENS) * TOKENS, position)


@triton.jit
def load(x, token, channel, mask, channels, WIDE: tl.constexpr):
    """Load values of a sample, and 0 where `mask` is False."""
    if token.shape[1] == 1:  # whole rows
        return tl.load(x + offset(token, channel, channels, WIDE), mask=mask, other=0.0)
    else:
        return fetch(x, offset(token, channel, channels, WIDE), mask, other=0.0)


@triton.jit
def fetch(x, offsets, mask=None, other=None):
    """Load values at any offsets. Where `mask` is False, return `other`; None: undefined values."""
    # In one dimension; in two, Triton would first move the offsets between threads.
    COUNT: tl.constexpr = offsets.shape[0] * offsets.shape[1]
    if mask is not None:
        mask = tl.reshape(tl.broadcast_to(mask, offsets.shape), (COUNT,))
    value = tl.load(x + tl.reshape(offsets, (COUNT,)), mask=mask, other=other)
    return tl.reshape(value, offsets.shape)


@triton.jit
def program(tokens, channels, TOKENS: tl.constexpr, CHANNELS: tl.constexpr):
    """Return sample, first token and tile of channels; the next program has the next channels."""
    tiles, chunks = tl.cdiv(channels, CHANNELS), tl.cdiv(tokens, TOKENS)
    chunk = tl.program_id(0) // tiles % chunks
    sample = tl.program_id(0) // tiles // chunks
    return sample.to(tl.int64), chunk * TOKENS, tl.program_id(0) % tiles


@triton.jit
def held_positions(number, window, limit, TOKENS: tl.constexpr, HELD: tl.constexpr):
    """Return the position of number 0, the number of rows to read, and the positions of numbers."""
    begin, tile, starts, spread, length = window
    if HELD == TOKENS:
        return 0, limit, number
    else:
        first = wrap(begin + tl.load(starts + tile), length)
        needed = tl.minimum(limit, tl.minimum(TOKENS, length - begin) + spread)
        return first, needed, wrap(first + number, length)


@triton.jit
def held_row(source, first, length, TOKENS: tl.constexpr, HELD: tl.constexpr):
    """Return the number of the row that holds a position from 0 to 2 * length."""
    source = wrap(source, length)
    return source if HELD == TOKENS else wrap(source - first + length, length) % HELD


@triton.jit
def pick(held, row):
    """Return for every value of `row` the value of its channel in this row of `held`."""
    ROWS: tl.constexpr = held.shape[0]
    CHANNELS: tl.constexpr = held.shape[1]
    PICKED: tl.constexpr = row.shape[0] * CHANNELS
    if held.dtype.primitive_bitwidth == 64 and ROWS * CHANNELS > 8192:
        # Pick halves, which take half the shared memory.
        high = pick((held >> 32).to(tl.int32), row).to(tl.int64)
        return (high << 32) | (pick(held.to(tl.int32), row).to(tl.int64) & 0xFFFFFFFF)
    # In one dimension; in two, Triton would first move the values between threads.
    at = tl.reshape(row * CHANNELS + tl.arange(0, CHANNELS)[None, :], (PICKED,))
    values = tl.gather(tl.reshape(held, (ROWS * CHANNELS,)), at, 0)
    return tl.reshape(values, (row.shape[0], CHANNELS))


@triton.jit
def pick_real(held, row, order, position, channel, limit, channels):
    """Pick values for real tokens, and 0 for padding, for which the last row of `held` is 0."""
    if order is None:
        return pick(held, tl.where(channel < channels, row, 0))
    else:
        return pick(held, tl.where(position < limit, row, held.shape[0] - 1))


@triton.jit
def offset(token, channel, channels, WIDE: tl.constexpr):
    """Return the offset of a value in its sample."""
    return row_offset(token, channels, WIDE) + channel


@triton.jit
def row_offset(token, channels, WIDE: tl.constexpr):
    """Return the offset of the values of a token in its sample."""
    return (token.to(tl.int64) if WIDE else token) * channels


@triton.jit
def wrap(position, length):
    """Return a position from 0 to 2 * length modulo length."""
    once = (position - length).to(tl.uint32, bitcast=True)
    return tl.minimum(position.to(tl.uint32, bitcast=True), once).to(tl.int32, bitcast=True)


class Program(NamedTuple):
    """Hold a kernel and all its arguments except arrays.

    Each framework has a function `run(program, arrays, results)` that starts the kernel and returns
    the results. `arrays` maps parameters to arrays or None, and `results` maps parameters to shapes
    and dtypes.
    """

    kernel: Any
    grid: int
    warps: int
    arguments: dict[str, Any]


def shifting_program(kernel, shape, window, **flags):
    """Return the `Program` of a shifting kernel for a window."""
    batch, tokens, channels = shape
    arguments = dict(
        spread=window.spread, tokens=tokens, channels=channels, TOKENS=window.tokens,
        CHANNELS=window.channels, HELD=window.held, WIDE=tokens * channels >= 2**31, **flags,
    )  # fmt: skip
    grid = batch * window.programs(tokens, channels)
    return Program(kernel, grid, window.warps, arguments)


def shift(run, x, reads):
    """Shift `x`, (batch, tokens, channels), by the offsets of `reads`, a `Reads`."""
    program = shifting_program(shift_kernel, x.shape, reads.window)
    [out] = run(program, {"x": x, **reads.arrays()}, {"out": (x.shape, x.dtype)})
    return out
