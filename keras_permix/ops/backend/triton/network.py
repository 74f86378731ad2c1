"""Sort with a bitonic network in Triton, by O(n log² n) comparisons.

Threads of a warp hold adjacent channels. Tokens that are compared most often are in one thread,
where a comparison takes one instruction. To compare distant tokens, threads exchange values.
"""

import triton
import triton.language as tl

from keras_permix.ops.backend.triton.shift import pick


@triton.jit
def number_of(row, COUNT: tl.constexpr, ROWS: tl.constexpr):
    """Return the numbers of rows; a thread holds every `ROWS`-th row, with consecutive numbers."""
    return row // ROWS + row % ROWS * (COUNT // ROWS)


@triton.jit
def row_of(number, COUNT: tl.constexpr, ROWS: tl.constexpr):
    """Return the row of a number, the inverse of `number_of`."""
    return number // (COUNT // ROWS) + number % (COUNT // ROWS) * ROWS


@triton.jit
def sort(key, LENGTH: tl.constexpr, ROWS: tl.constexpr):
    """Sort integers, (rows, channels), in groups of `LENGTH` rows, numbered by `number_of`."""
    for stage in tl.static_range(1, 15):
        if 2**stage <= LENGTH:
            key = merge(key, 2**stage, LENGTH, ROWS)
    return key


@triton.jit
def merge(key, SIZE: tl.constexpr, LENGTH: tl.constexpr, ROWS: tl.constexpr):
    """Sort runs of `SIZE` numbers that ascend, then descend; every second run descending.

    Numbers less than `PER_THREAD` apart are in one thread, like rows a multiple of `ROWS` apart.
    """
    COUNT: tl.constexpr = key.shape[0]
    PER_THREAD: tl.constexpr = COUNT // ROWS
    row = tl.arange(0, COUNT)[:, None]
    index = number_of(row, COUNT, ROWS)
    if SIZE > 2 * PER_THREAD and SIZE > 2 * ROWS:
        # Order rows by their numbers, so that distant numbers are in one thread.
        key = pick(key, tl.broadcast_to(row_of(row, COUNT, ROWS), key.shape))
        key = compare_all(key, row, SIZE // 2, ROWS, 1, SIZE, LENGTH)
        key = pick(key, tl.broadcast_to(index, key.shape))
        FAR: tl.constexpr = ROWS // 2
    else:
        FAR: tl.constexpr = SIZE // 2
    for step in tl.static_range(14):
        if FAR // 2**step >= PER_THREAD:
            key = compare_far(key, index, FAR // 2**step, PER_THREAD, SIZE, LENGTH)
    NEAR: tl.constexpr = min(FAR, PER_THREAD // 2)
    if PER_THREAD <= SIZE and SIZE < LENGTH:
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
    """Compare numbers in one thread that are `FIRST`, `FIRST` / 2, …, `LAST` apart."""
    for step in tl.static_range(14):
        if FIRST // 2**step >= LAST:
            other = partner(key, FIRST // 2**step * STRIDE)
            key = choose(key, other, index, FIRST // 2**step, SIZE, LENGTH)
    return key


@triton.jit
def compare_far(
    key,
    index,
    STEP: tl.constexpr,
    PER_THREAD: tl.constexpr,
    SIZE: tl.constexpr,
    LENGTH: tl.constexpr,
):
    """Compare numbers in different threads that are `STEP` apart."""
    row = tl.arange(0, key.shape[0])[:, None] ^ (STEP // PER_THREAD)
    other = pick(key, tl.broadcast_to(row, key.shape))
    return choose(key, other, index, STEP, SIZE, LENGTH)


@triton.jit
def choose(key, other, index, STEP: tl.constexpr, SIZE: tl.constexpr, LENGTH: tl.constexpr):
    """Return the minimum of two for the first, or for the second where numbers descend."""
    takes_less = (index & STEP) == 0
    if SIZE < LENGTH:
        takes_less = takes_less == ((index & SIZE) == 0)
    return tl.where(takes_less, tl.minimum(key, other), tl.maximum(key, other))


@triton.jit
def partner(value, STEP: tl.constexpr):
    """Return for every row the row that is `STEP` before or after it.

    This is the sum of both minus the row, which the compiler omits within one thread.
    """
    BITS: tl.constexpr = value.dtype.primitive_bitwidth
    ROWS: tl.constexpr = value.shape[0]
    NARROW: tl.constexpr = tl.int64 if BITS == 64 else tl.int32 if BITS == 32 else tl.int16
    number = value.to(NARROW, bitcast=True).to(tl.int64 if BITS == 64 else tl.int32)
    pairs = tl.reshape(number, (ROWS // 2 // STEP, 2, STEP, value.shape[1]))
    others = tl.reshape(tl.sum(pairs, axis=1, keep_dims=True) - pairs, value.shape)
    return others.to(NARROW).to(value.dtype, bitcast=True)
