"""Shift every channel, and order the tokens of every pair: one pass.

The trace is one bit per pair, True where the pair was swapped. The gradient swaps back and shifts
back, in one pass as well.
"""

import torch
import triton
import triton.language as tl

from keras_permix.ops.backend.torch.triton.channel_shift import (
    SCALAR,
    held_row,
    hold,
    launch,
    offset,
    pick,
    program,
    wrap,
)
from keras_permix.ops.backend.torch.triton.group_sort import in_turn, in_turns, partner
from keras_permix.ops.backend.torch.triton.tables import Reads
from keras_permix.ops.backend.windows import WORD as TOKENS_OF_WORD
from keras_permix.ops.backend.windows import Window

WORD = tl.constexpr(TOKENS_OF_WORD)
PAIRS = tl.constexpr(TOKENS_OF_WORD // 2)  # a bit each


@triton.jit(do_not_specialize=SCALAR)
def order_pairs_kernel(
    x,
    out,
    swaps,
    reads,
    starts,
    spread,
    tokens,
    channels,
    TOKENS: tl.constexpr,
    CHANNELS: tl.constexpr,
    HELD: tl.constexpr,
    WIDE: tl.constexpr,
    ROWS: tl.constexpr,
    ALIGNED: tl.constexpr,
    TRACED: tl.constexpr,
):
    sample, begin, tile = program(tokens, channels, TOKENS, CHANNELS)
    words = sample * tl.cdiv(tokens, WORD) * channels
    x, out = x + sample * tokens * channels, out + sample * tokens * channels
    channel = tile * CHANNELS + tl.arange(0, CHANNELS)[None, :]
    limit = tl.where(channel < channels, tokens, 0)
    # The first half of the rows are the first tokens of the pairs, the second half the second.
    row = tl.arange(0, TOKENS)[:, None]
    pair, second = in_turn(row % (TOKENS // 2), TOKENS // 2, ROWS), row // (TOKENS // 2)
    token = begin + 2 * pair + second
    source = token
    if reads is not None:
        source += tl.load(reads + channel, mask=channel < channels, other=0)
    if HELD:
        window = begin, tile, starts, spread, tokens, channels
        number = tl.arange(0, HELD)[:, None]
        held, first = hold(x, number, channel, limit, window, TOKENS, HELD, WIDE)
        at = held_row(source, first, begin, tokens, TOKENS, HELD)
        value = pick(held, tl.where(channel < channels, at, 0))
    else:
        source = offset(wrap(source, tokens), channel, channels, WIDE)
        value = tl.load(x + source, mask=token < limit, other=0.0)
    other = partner(value, TOKENS // 2)
    swap = tl.where(second == 0, less(other, value), less(value, other))
    if ALIGNED:
        here = begin + 2 * pair
        leader = x + offset(here, 0, channels, WIDE)
        a = tl.load(leader, mask=here < tokens, other=0.0)
        b = tl.load(leader + channels, mask=here < tokens, other=0.0)
        swap = swap ^ less(b, a)
    target = offset(token, channel, channels, WIDE)
    tl.store(out + target, tl.where(swap, other, value), mask=token < limit)
    if TRACED:
        bits = (swap & (second == 0) & (token < limit)).to(tl.int32) << (pair % PAIRS)
        index, word = words_of(bits, TOKENS // 2, ROWS)
        index, channel = begin // WORD + index, channel[None]
        mask = (index * WORD < tokens) & (channel < channels)
        tl.store(swaps + words + offset(index, channel, channels, WIDE), word, mask=mask)


@triton.jit
def words_of(bits, COUNT: tl.constexpr, ROWS: tl.constexpr):
    """Words, and their numbers in the program, of one bit per pair in rows that are `in_turn`."""
    CHANNELS: tl.constexpr = bits.shape[1]
    TURNS: tl.constexpr = COUNT // ROWS  # pairs in a row that a thread has
    if TURNS >= PAIRS:
        bits = tl.reshape(bits, (2, TURNS // PAIRS, PAIRS, ROWS, CHANNELS))
        word = tl.sum(tl.sum(bits, axis=2), axis=0)
        index = tl.arange(0, TURNS // PAIRS)[:, None, None]
        return index + tl.arange(0, ROWS)[None, :, None] * (TURNS // PAIRS), word
    else:
        bits = tl.sum(tl.sum(tl.reshape(bits, (2, TURNS, ROWS, CHANNELS)), axis=1), axis=0)
        word = tl.sum(tl.reshape(bits, (COUNT // PAIRS, PAIRS // TURNS, CHANNELS)), axis=1)
        return tl.arange(0, COUNT // PAIRS)[None, :, None], word[None]


@triton.jit
def less(a, b):
    """Compared in float32, which holds all of them; the interpreter compares bfloat16 as bits."""
    return a.to(tl.float32) < b.to(tl.float32)


@triton.jit(do_not_specialize=SCALAR)
def undo_pairs_kernel(
    grad,
    out,
    swaps,
    reads,
    starts,
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
    channel = tile * CHANNELS + tl.arange(0, CHANNELS)[None, :]
    limit = tl.where(channel < channels, tokens, 0)
    token = begin + tl.arange(0, TOKENS)[:, None]
    source = token + tl.load(reads + channel, mask=channel < channels, other=0)
    if HELD:
        window = begin, tile, starts, spread, tokens, channels
        row = tl.arange(0, HELD)[:, None]
        pair = in_turn(row % (HELD // 2), HELD // 2, ROWS)
        number = 2 * pair + row // (HELD // 2)
        held, first = hold(grad, number, channel, limit, window, TOKENS, HELD, WIDE)
        pair = in_turn(tl.arange(0, HELD // 2)[:, None], HELD // 2, ROWS)
        here = tl.where(2 * pair < tokens, wrap(first + 2 * pair, tokens), 0)
        swap = tl.broadcast_to(
            swap_at(swaps, here, channel, limit, channels, WIDE)[None], (2, HELD // 2, CHANNELS)
        )
        swap = tl.reshape(swap, (HELD, CHANNELS))
        held = tl.where(swap != 0, partner(held, HELD // 2), held)
        number = held_row(source, first, begin, tokens, TOKENS, HELD)
        row = number % 2 * (HELD // 2) + in_turns(number // 2, HELD // 2, ROWS)
        value = pick(held, tl.where(token < limit, row, 0))
    else:
        source = wrap(source, tokens)
        # The other of a pair lies beside it.
        source = source ^ swap_at(swaps, source, channel, limit, channels, WIDE)
        source = offset(source, channel, channels, WIDE)
        value = tl.load(grad + source, mask=token < limit, other=0.0)
    tl.store(out + offset(token, channel, channels, WIDE), value, mask=token < limit)


@triton.jit
def swap_at(swaps, token, channel, limit, channels, WIDE: tl.constexpr):
    """1 where the pair of a token was swapped."""
    words = swaps + offset(token // WORD, channel, channels, WIDE)
    return (tl.load(words, mask=token < limit, other=0) >> (token % WORD // 2)) & 1


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
    reads = reads or Reads(Window())
    flags = dict(ROWS=reads.window.rows, ALIGNED=aligned, TRACED=traced)
    launch(order_pairs_kernel, reads, x, out, swaps, **flags)
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
    launch(undo_pairs_kernel, reads, grad, out, swaps, ROWS=reads.window.rows)
    return out
