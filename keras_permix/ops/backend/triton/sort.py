"""Sort every channel in groups of up to 8,192 tokens, and undo it: one pass each.

A program sorts some groups of some channels in a bitonic network of O(n log² n) comparisons. Floats
become integers of the same order. Where the gradient will ask, an integer holds the value above its
place, and so a network, which is not stable, sorts stably. The trace is that place in the group, in
one byte or two. The gradient sorts by it.

Threads of a warp have channels that lie side by side. Tokens that are compared most often are in
one thread, where a comparison takes one instruction; when tokens far from each other are compared,
the threads exchange what they hold.
"""

from typing import NamedTuple

import triton
import triton.language as tl

from keras_permix.ops.backend.plan import power_of_two
from keras_permix.ops.backend.triton.shift import (
    SCALAR,
    Program,
    offset,
    pick,
    program,
    token_at,
)
from keras_permix.ops.backend.triton.windows import ALL, WIDEST

LONGEST = 8192  # beyond it, shared memory of some GPUs is too small


class Tile(NamedTuple):
    """What one program sorts."""

    length: int  # of a group, rounded up to a power of two
    groups: int
    channels: int
    warps: int

    @property
    def rows(self):
        """Rows that the threads of a program cover at once."""
        return 32 * self.warps // self.channels


def tile_for(group_size, words):
    """16 to 32 values a thread, each of so many words of 32 bits, which need no stack."""
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
    places,
    descending,
    leader,
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
    TRACED: tl.constexpr,
):
    first, place, channel, within = lines(
        tokens, channels, group_size, LENGTH, GROUPS, CHANNELS, ROWS
    )
    sample, begin = first
    base, inside = sample * tokens * channels, within & (channel < channels)
    real = place < group_size
    if order is not None:
        order += sample * tokens
        real = real & (begin + place < tl.load(lengths + sample))
    source = offset(token_at(order, begin + place, tokens), channel, channels, WIDE)
    value = tl.load(x + base + source, mask=inside, other=0.0)
    BITS: tl.constexpr = value.dtype.primitive_bitwidth
    NARROW: tl.constexpr = tl.int32 if BITS == 32 else tl.int16
    LAST: tl.constexpr = 2 ** (BITS - 1) - 1
    key = mirror(value.to(NARROW, bitcast=True), LAST)
    if TRACED:
        # -0.0, whose key is -1, is to equal 0.0; a bit below the place remembers it.
        minus_zero = key == -1
        key = tl.where(minus_zero, 0, key)
        key = tl.where(real, key, LAST).to(tl.int64 if BITS == 32 else tl.int32)
        key = (key << BITS) | (2 * place + minus_zero)
    else:
        key = tl.where(real, key, LAST).to(tl.int32)
    if descending is not None:  # what sorts last stays last
        turn = tl.load(descending + channel, mask=channel < channels, other=0) != 0
        key = tl.where(real, tl.where(turn, ~key, key), 2 ** (key.dtype.primitive_bitwidth - 1) - 1)
    key = sort(key, LENGTH, ROWS)
    if descending is not None:
        key = tl.where(turn, ~key, key)
    if TRACED:
        minus_zero = (key & 1) != 0
        origin = (key.to(NARROW).to(tl.int32) & LAST) >> 1
        if descending is not None:
            origin = tl.where(real, origin, place)
        key = tl.where(minus_zero, -1, (key >> BITS).to(NARROW))
    else:
        key = key.to(NARROW)
    value = mirror(key, LAST).to(value.dtype, bitcast=True)
    target = place
    if leader is not None:
        at = leader + sample * tokens + begin + place
        target = tl.load(at, mask=within, other=0).to(tl.int32)
    token = token_at(order, begin + target, tokens)
    if order is not None:
        value = tl.where(real, value, tl.zeros(value.shape, value.dtype))
    tl.store(out + base + offset(token, channel, channels, WIDE), value, mask=inside)
    if TRACED:
        target = base + offset(begin + target, channel, channels, WIDE)
        tl.store(places + target, origin.to(places.dtype.element_ty), mask=inside)


@triton.jit(do_not_specialize=SCALAR)
def put_back_kernel(
    grad,
    out,
    places,
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
    first, place, channel, within = lines(
        tokens, channels, group_size, LENGTH, GROUPS, CHANNELS, ROWS
    )
    sample, begin = first
    base, inside = sample * tokens * channels, within & (channel < channels)
    real = place < group_size
    if order is not None:
        order += sample * tokens
        real = real & (begin + place < tl.load(lengths + sample))
    source = base + offset(begin + place, channel, channels, WIDE)
    origin = tl.load(places + source, mask=inside, other=0).to(tl.int32)
    origin = tl.where(real, origin, LENGTH - 1)  # padding stays behind
    token = base + offset(token_at(order, begin + place, tokens), channel, channels, WIDE)
    value = tl.load(grad + token, mask=inside, other=0.0)
    BITS: tl.constexpr = value.dtype.primitive_bitwidth
    if BITS == 16:
        low = value.to(tl.int16, bitcast=True).to(tl.int32) & 0xFFFF
        key = sort((origin << 16) | low, LENGTH, ROWS)
        value = key.to(tl.int16).to(value.dtype, bitcast=True)
    else:
        row = tl.arange(0, LENGTH * GROUPS)[:, None]
        key = sort((origin << 16) | row, LENGTH, ROWS)
        value = pick(value, key & 0xFFFF)
    if order is not None:
        value = tl.where(real, value, tl.zeros(value.shape, value.dtype))
        # Looked up once more, which takes fewer registers than to keep it.
        token = tl.load(order + begin + place, mask=within, other=0, volatile=True)
        token = base + offset(token, channel, channels, WIDE)
    tl.store(out + token, value, mask=inside)


@triton.jit
def lines(
    tokens,
    channels,
    group_size,
    LENGTH: tl.constexpr,
    GROUPS: tl.constexpr,
    CHANNELS: tl.constexpr,
    ROWS: tl.constexpr,
):
    """The rows of a program: sample and first place of their groups, places in these, channels.

    The last result says which rows there are.
    """
    groups = tl.cdiv(tokens, group_size)
    sample, begin, tile = program(groups, channels, GROUPS, CHANNELS)
    channel = tile * CHANNELS + tl.arange(0, CHANNELS)[None, :]
    index = in_turn(tl.arange(0, LENGTH * GROUPS)[:, None], LENGTH * GROUPS, ROWS)
    place, first = index % LENGTH, (begin + index // LENGTH) * group_size
    return (sample, first), place, channel, (place < group_size) & (first + place < tokens)


@triton.jit
def mirror(bits, LAST: tl.constexpr):
    """Negative floats ascend as their integers descend; the mapping is its own inverse."""
    return tl.where(bits < 0, bits ^ LAST, bits)


@triton.jit
def in_turn(row, COUNT: tl.constexpr, ROWS: tl.constexpr):
    """The numbers of `COUNT` rows, of which a thread has every `ROWS`-th: there they follow."""
    return row // ROWS + row % ROWS * (COUNT // ROWS)


@triton.jit
def in_turns(number, COUNT: tl.constexpr, ROWS: tl.constexpr):
    """The row of a number: the inverse of `in_turn`."""
    return number // (COUNT // ROWS) + number % (COUNT // ROWS) * ROWS


@triton.jit
def sort(key, LENGTH: tl.constexpr, ROWS: tl.constexpr):
    """Sort integers, (rows, channels), in groups of `LENGTH` rows that are `in_turn`."""
    for stage in tl.static_range(1, 15):
        if 2**stage <= LENGTH:
            key = merge(key, 2**stage, LENGTH, ROWS)
    return key


@triton.jit
def merge(key, SIZE: tl.constexpr, LENGTH: tl.constexpr, ROWS: tl.constexpr):
    """Sort `SIZE` numbers that ascend and then descend; every second time descending.

    Numbers below `TURNS` lie in one thread, as the rows do from `ROWS` on.
    """
    COUNT: tl.constexpr = key.shape[0]
    TURNS: tl.constexpr = COUNT // ROWS
    row = tl.arange(0, COUNT)[:, None]
    index = in_turn(row, COUNT, ROWS)
    if SIZE > 2 * TURNS and SIZE > 2 * ROWS:
        # By rows that are their own numbers, so that the far ones are in one thread.
        key = pick(key, tl.broadcast_to(in_turns(row, COUNT, ROWS), key.shape))
        key = compare_all(key, row, SIZE // 2, ROWS, 1, SIZE, LENGTH)
        key = pick(key, tl.broadcast_to(index, key.shape))
        FAR: tl.constexpr = ROWS // 2
    else:
        FAR: tl.constexpr = SIZE // 2
    for step in tl.static_range(14):
        if FAR // 2**step >= TURNS:
            key = compare_far(key, index, FAR // 2**step, TURNS, SIZE, LENGTH)
    NEAR: tl.constexpr = min(FAR, TURNS // 2)
    if TURNS <= SIZE and SIZE < LENGTH:
        descending = (index & SIZE) != 0
        key = tl.where(descending, ~key, key)
        key = compare_all(key, index, NEAR, 1, ROWS, LENGTH, LENGTH)
        return tl.where(descending, ~key, key)
    else:
        return compare_all(key, index, NEAR, 1, ROWS, SIZE, LENGTH)


@triton.jit
def compare_all(
    key,
    index,
    FIRST: tl.constexpr,
    LAST: tl.constexpr,
    STRIDE: tl.constexpr,
    SIZE: tl.constexpr,
    LENGTH: tl.constexpr,
):
    """Compare numbers that are `FIRST`, half of it, …, `LAST` apart, and in one thread."""
    for step in tl.static_range(14):
        if FIRST // 2**step >= LAST:
            other = partner(key, FIRST // 2**step * STRIDE)
            key = choose(key, other, index, FIRST // 2**step, SIZE, LENGTH)
    return key


@triton.jit
def compare_far(
    key, index, STEP: tl.constexpr, TURNS: tl.constexpr, SIZE: tl.constexpr, LENGTH: tl.constexpr
):
    """Compare numbers that are `STEP` apart, and in different threads."""
    row = tl.arange(0, key.shape[0])[:, None] ^ (STEP // TURNS)
    other = pick(key, tl.broadcast_to(row, key.shape))
    return choose(key, other, index, STEP, SIZE, LENGTH)


@triton.jit
def choose(key, other, index, STEP: tl.constexpr, SIZE: tl.constexpr, LENGTH: tl.constexpr):
    """The less of two for the first of them, or for the second where numbers descend."""
    takes_less = (index & STEP) == 0
    if SIZE < LENGTH:
        takes_less = takes_less == ((index & SIZE) == 0)
    return tl.where(takes_less, tl.minimum(key, other), tl.maximum(key, other))


@triton.jit
def partner(value, STEP: tl.constexpr):
    """For every row the one that is `STEP` before or behind it.

    That is the sum of both less itself; in one thread the compiler computes neither.
    """
    BITS: tl.constexpr = value.dtype.primitive_bitwidth
    ROWS: tl.constexpr = value.shape[0]
    NARROW: tl.constexpr = tl.int64 if BITS == 64 else tl.int32 if BITS == 32 else tl.int16
    number = value.to(NARROW, bitcast=True).to(tl.int64 if BITS == 64 else tl.int32)
    pairs = tl.reshape(number, (ROWS // 2 // STEP, 2, STEP, value.shape[1]))
    others = tl.reshape(tl.sum(pairs, axis=1, keep_dims=True) - pairs, value.shape)
    return others.to(NARROW).to(value.dtype, bitcast=True)


def sort_groups(run, x, group_size, real=ALL, *, descending=None, aligned=False, traced=False):
    """Sort `x` in groups of tokens.

    Args:
        run: The caller of a framework, as for `Program`.
        x: Contiguous floats of shape (batch, tokens, channels).
        group_size: Tokens per group, up to `LONGEST`. Without a mask, it divides the tokens.
        real: A `Real`, the real tokens of a masked call.
        descending: (channels,), int8, 1 for the channels to reverse, or None.
        aligned: Give the groups the ranks of those of channel 0.
        traced: Whether `put_back` will need the second result.

    Returns:
        A tensor like `x`, and the place in its group that every value came from, unsigned bytes or
        int16; or None.
    """
    leader = None
    if aligned:
        leader = sort_groups(run, x[..., :1], group_size, real, traced=True)[1]
    words = 2 if traced and x.dtype.itemsize == 4 else _least_words(group_size, real)
    program = sorting_program(sort_groups_kernel, x.shape, group_size, words, TRACED=traced)
    arrays = dict(x=x, descending=descending, leader=leader, **real._asdict())
    out = {"out": (x.shape, x.dtype)}
    if not traced:
        return *run(program, {**arrays, "places": None}, out), None
    return run(program, arrays, {**out, "places": places_of(x.shape, group_size)})


def sorting_program(kernel, shape, group_size, words, tile=None, **flags):
    """A kernel that sorts groups of values of so many words, as `tile` says."""
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


def _least_words(group_size, real):
    """Pointers of a masked call pass through shared memory, 8 bytes for each value."""
    return 2 if real.order is not None and group_size > 256 else 1


def places_of(shape, group_size):
    """The shape and dtype of the places that `sort_groups` finds."""
    return shape, "uint8" if group_size <= 256 else "int16"


def put_back(run, grad, places, group_size, real=ALL):
    """Bring every value back to where `sort_groups` found it."""
    words = max(grad.dtype.itemsize // 2, _least_words(group_size, real))
    program = sorting_program(put_back_kernel, grad.shape, group_size, words)
    arrays = dict(grad=grad, places=places, **real._asdict())
    [out] = run(program, arrays, {"out": (grad.shape, grad.dtype)})
    return out
