"""Shift every channel, and sort the tokens of every pair, in one pass; undo both in one pass."""

import triton
import triton.language as tl

from keras_permix.ops.backend.triton.network import number_of, partner, row_of
from keras_permix.ops.backend.triton.shift import (
    SCALAR,
    fetch,
    held_positions,
    held_row,
    load,
    offset,
    order_of,
    pick_real,
    program,
    shifting_program,
    token_around,
    token_at,
    wrap,
)
from keras_permix.ops.backend.triton.windows import WORD as TOKENS_OF_WORD

WORD = tl.constexpr(TOKENS_OF_WORD)
PAIRS = tl.constexpr(TOKENS_OF_WORD // 2)  # one bit each


@triton.jit(do_not_specialize=SCALAR)
def order_pairs_kernel(
    x,
    out,
    swaps,
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
    ROWS: tl.constexpr,
    ALIGNED: tl.constexpr,
    RESIDUALS: tl.constexpr,
):
    sample, begin, tile = program(tokens, channels, TOKENS, CHANNELS)
    words = sample * tl.cdiv(tokens, WORD) * channels
    x, out = x + sample * tokens * channels, out + sample * tokens * channels
    length = tokens
    if order is not None:
        order, length = order_of(order, sample, tokens, TOKENS, HELD), tl.load(lengths + sample)
        if reads is not None:
            reads += sample * channels
    channel = tile * CHANNELS + tl.arange(0, CHANNELS)[None, :]
    limit = tl.where(channel < channels, length, 0)
    # The first half of the rows holds the first tokens of the pairs, the other half the second.
    row = tl.arange(0, TOKENS)[:, None]
    pair, second = number_of(row % (TOKENS // 2), TOKENS // 2, ROWS), row // (TOKENS // 2)
    position = begin + 2 * pair + second
    real = position < limit
    source = position
    if reads is not None:
        source += tl.load(reads + channel, mask=channel < channels, other=0)
    if HELD:
        window = begin, tile, starts, spread, length
        number = tl.arange(0, HELD)[:, None]
        first, needed, at = held_positions(number, window, limit, TOKENS, HELD)
        at = token_at(order, at)
        held = load(x, at, channel, number < needed, channels, WIDE)
        at = held_row(source, first, length, TOKENS, HELD)
        value = pick_real(held, at, order, position, channel, limit, channels)
    else:
        source = token_around(order, source, length, tokens, TOKENS)
        value = load(x, source, channel, real, channels, WIDE)
    other = partner(value, TOKENS // 2)
    swap = descends(value, other, second)
    token = token_at(order, position)
    if ALIGNED:  # threads hold the same rows of the reference channel
        reference = fetch(x, offset(token, 0 * channel, channels, WIDE), real, other=0.0)
        swap = swap ^ descends(reference, partner(reference, TOKENS // 2), second)
    complete = real
    if order is not None:  # Without a mask, all pairs are complete.
        complete = position < length // 2 * 2
        swap = swap & complete
    mask = (position < tokens) & (channel < channels)
    target = out + offset(token, channel, channels, WIDE)
    tl.store(target, tl.where(swap, other, value), mask=mask)
    if RESIDUALS:
        bits = (swap & complete & (second == 0)).to(tl.int32) << (pair % PAIRS)
        index, word = words_of(bits, TOKENS // 2, ROWS)
        index, channel = begin // WORD + index, channel[None]
        mask = (index * WORD < tokens) & (channel < channels)
        tl.store(swaps + words + offset(index, channel, channels, WIDE), word, mask=mask)


@triton.jit
def words_of(bits, COUNT: tl.constexpr, ROWS: tl.constexpr):
    """Return numbers of words, and words of one bit per pair, for rows numbered by `number_of`."""
    CHANNELS: tl.constexpr = bits.shape[1]
    PER_THREAD: tl.constexpr = COUNT // ROWS  # consecutive pairs of a thread
    if PER_THREAD >= PAIRS:
        bits = tl.reshape(bits, (2, PER_THREAD // PAIRS, PAIRS, ROWS, CHANNELS))
        word = tl.sum(tl.sum(bits, axis=2), axis=0)
        index = tl.arange(0, PER_THREAD // PAIRS)[:, None, None]
        return index + tl.arange(0, ROWS)[None, :, None] * (PER_THREAD // PAIRS), word
    else:
        bits = tl.sum(tl.sum(tl.reshape(bits, (2, PER_THREAD, ROWS, CHANNELS)), axis=1), axis=0)
        word = tl.sum(tl.reshape(bits, (COUNT // PAIRS, PAIRS // PER_THREAD, CHANNELS)), axis=1)
        return tl.arange(0, COUNT // PAIRS)[None, :, None], word[None]


@triton.jit
def descends(value, other, second):
    """Return whether a pair descends; `second` is 1 if `value` is its second token.

    Compares in float32, because the interpreter compares bfloat16 as bits.
    """
    a, b = value.to(tl.float32), other.to(tl.float32)
    return tl.where(second == 0, b < a, a < b)


@triton.jit(do_not_specialize=SCALAR)
def undo_pairs_kernel(
    grad,
    out,
    swaps,
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
    ROWS: tl.constexpr,
):
    sample, begin, tile = program(tokens, channels, TOKENS, CHANNELS)
    swaps += sample * tl.cdiv(tokens, WORD) * channels
    grad, out = grad + sample * tokens * channels, out + sample * tokens * channels
    length = tokens
    if order is not None:
        order, reads = order_of(order, sample, tokens, TOKENS, HELD), reads + sample * channels
        length = tl.load(lengths + sample)
    channel = tile * CHANNELS + tl.arange(0, CHANNELS)[None, :]
    limit = tl.where(channel < channels, length, 0)
    position = begin + tl.arange(0, TOKENS)[:, None]
    source = position + tl.load(reads + channel, mask=channel < channels, other=0)
    if HELD:
        window = begin, tile, starts, spread, length
        row = tl.arange(0, HELD)[:, None]
        pair = number_of(row % (HELD // 2), HELD // 2, ROWS)
        number = 2 * pair + row // (HELD // 2)
        first, needed, at = held_positions(number, window, limit, TOKENS, HELD)
        at = token_at(order, at)
        held = load(grad, at, channel, number < needed, channels, WIDE)
        pair = number_of(tl.arange(0, HELD // 2)[:, None], HELD // 2, ROWS)
        here = tl.where(2 * pair < length, wrap(first + 2 * pair, length), 0)
        swap = tl.broadcast_to(
            swap_at(swaps, here, channel, limit, channels, WIDE)[None], (2, HELD // 2, CHANNELS)
        )
        swap = tl.reshape(swap, (HELD, CHANNELS))
        held = tl.where(swap != 0, partner(held, HELD // 2), held)
        number = held_row(source, first, length, TOKENS, HELD)
        row = number % 2 * (HELD // 2) + row_of(number // 2, HELD // 2, ROWS)
        value = pick_real(held, row, order, position, channel, limit, channels)
    else:
        source = wrap(source, length)
        # The tokens of a pair are adjacent.
        source = source ^ swap_at(swaps, source, channel, limit, channels, WIDE)
        real = position < limit
        value = load(grad, token_at(order, source), channel, real, channels, WIDE)
    token = token_at(order, position)
    target = offset(token, channel, channels, WIDE)
    tl.store(out + target, value, mask=(position < tokens) & (channel < channels))


@triton.jit
def swap_at(swaps, position, channel, limit, channels, WIDE: tl.constexpr):
    """Return 1 where the pair of a position was swapped, else 0."""
    word = load(swaps, position // WORD, channel, position < limit, channels, WIDE)
    return (word >> (position % WORD // 2)) & 1


def order_pairs(run, x, reads, *, aligned, with_residuals):
    """Shift `x` by `reads`, and sort its pairs of tokens.

    `x`, contiguous floats (batch, tokens, channels), has complete pairs unless it is masked. If
    `aligned`, pairs are ordered like those of channel 0, which is not shifted. `run` is explained
    in `Program`. Returns a tensor like `x` and, if `with_residuals`, one bit per pair, True if it
    was swapped, in int32 words of 32 pairs, (batch, words, channels); otherwise None.
    """
    flags = dict(ROWS=reads.window.rows, ALIGNED=aligned, RESIDUALS=with_residuals)
    program = shifting_program(order_pairs_kernel, x.shape, reads.window, **flags)
    arrays, out = {"x": x, **reads.arrays()}, {"out": (x.shape, x.dtype)}
    if not with_residuals:
        return *run(program, {**arrays, "swaps": None}, out), None
    return run(program, arrays, {**out, "swaps": swaps_of(x.shape)})


def swaps_of(shape):
    """Return the shape and dtype of the bits of all pairs."""
    batch, tokens, channels = shape
    return (batch, -(-tokens // TOKENS_OF_WORD), channels), "int32"


def undo_pairs(run, grad, reads, swaps):
    """Undo `order_pairs`; `reads` is the `Reads` of the inverse shift."""
    program = shifting_program(undo_pairs_kernel, grad.shape, reads.window, ROWS=reads.window.rows)
    arrays = {"grad": grad, "swaps": swaps, **reads.arrays()}
    [out] = run(program, arrays, {"out": (grad.shape, grad.dtype)})
    return out
