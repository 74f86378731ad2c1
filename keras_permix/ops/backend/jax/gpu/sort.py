"""Sorting groups of up to 4096 tokens on a GPU: a bitonic network on integers, in Pallas by Triton.

A program sorts some lines, a line being one channel of one group, filled up to a power of two.

Arrays are (groups, tokens, channels), int16 or int32, of which floats are the bits.
"""

from functools import partial

import jax
import jax.numpy as jnp
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton

from keras_permix.ops.backend.jax.keys import is_minus_zero, mirror, to_key

WORDS = 2048  # of a program, if a line does not need more
LAST = 2**31 - 1


def sort(bits, floating, interpret=False):
    """Sort every group."""
    kernel = partial(_sort_kernel, mirror=mirror(bits, floating))
    return _call(kernel, "sort", [bits], [bits.dtype], 1, interpret)[0]


def sort_with_places(bits, floating, interpret=False):
    """Sort stably; also return the place in its group that each value came from, int16."""
    kernel = partial(_sort_with_places_kernel, mirror=mirror(bits, floating))
    words, dtypes = bits.dtype.itemsize // 2, [bits.dtype, jnp.int16]
    return _call(kernel, "sort_with_places", [bits], dtypes, words, interpret)


def unsort(bits, places, interpret=False):
    """Bring what `sort_with_places` has sorted back to where it came from.

    Places past the group are those of what only filled it up; nothing is written for them.
    """
    return _call(_unsort_kernel, "unsort", [bits, places], [bits.dtype], 1, interpret)[0]


def _call(kernel, name, operands, dtypes, words, interpret):
    """Call a kernel that holds some words of every value."""
    groups, tokens, channels = operands[0].shape
    length = pl.next_power_of_2(tokens)
    lines = max(WORDS // (words * length), 1)
    warps = 8 if length < 4096 else 16
    return pl.pallas_call(
        partial(kernel, tile=(lines, length)),
        grid=(pl.cdiv(groups * channels, lines),),
        out_shape=[jax.ShapeDtypeStruct(operands[0].shape, dtype) for dtype in dtypes],
        compiler_params=triton.CompilerParams(num_warps=warps),
        interpret=interpret,
        name=f"permix_{name}",
    )(*operands)


def _sort_kernel(bits, out, *, tile, mirror):
    lines = _Lines(bits.shape, tile)
    key = to_key(lines.load(bits).astype(jnp.int32), mirror)
    [key] = _run_network([jnp.where(lines.inside, key, LAST)], lines.place)
    lines.store(out, lines.place, to_key(key, mirror))


def _sort_with_places_kernel(bits, out, places, *, tile, mirror):
    lines = _Lines(bits.shape, tile)
    key = to_key(lines.load(bits).astype(jnp.int32), mirror)
    minus = is_minus_zero(key, mirror)  # a bit below the place remembers it
    narrow = bits.dtype == jnp.int16
    key = jnp.where(lines.inside, key + minus, jnp.iinfo(bits.dtype).max)
    low = 2 * lines.place + minus
    if narrow:
        [word] = _run_network([(key << 16) | low], lines.place)
        key, low = word >> 16, word & 0xFFFF
    else:
        key, low = _run_network([key, low], lines.place)
    lines.store(out, lines.place, to_key(key - (low & 1), mirror))
    lines.store(places, lines.place, low >> 1)


def _unsort_kernel(bits, places, out, *, tile):
    lines = _Lines(bits.shape, tile)
    places = lines.load(places, other=lines.tokens).astype(jnp.int32)
    lines.store(out, places, lines.load(bits))


class _Lines:
    """The lines of this program: where their values are, and which are there at all."""

    def __init__(self, shape, tile):
        groups, self.tokens, channels = shape
        line = pl.program_id(0) * tile[0] + lax.broadcasted_iota(jnp.int32, tile, 0)
        self.place = lax.broadcasted_iota(jnp.int32, tile, 1)
        self.group, self.channel = lax.div(line, channels), lax.rem(line, channels)
        self.inside = (self.place < self.tokens) & (self.group < groups)

    def load(self, array, other=0):
        pointers = array.at[self.group, self.place, self.channel]
        return triton.load(pointers, mask=self.inside, other=other)

    def store(self, array, place, values):
        pointers = array.at[self.group, place, self.channel]
        mask = self.inside & (place < self.tokens)
        triton.store(pointers, values.astype(array.dtype), mask=mask)


def _run_network(arrays, place):
    """Sort every line by the first array, and where it is equal by the second."""
    stages = (place.shape[1] - 1).bit_length()
    for size in range(1, stages + 1):
        for step in reversed(range(size)):
            arrays = _exchange(arrays, place, size, step)
    return arrays


def _exchange(arrays, place, size, step):
    """Order values that are 2**step apart, downwards where the place has the bit 2**size."""
    other = [_other(array, 1 << step) for array in arrays]
    keeps_less = ((place >> step) ^ (place >> size)) & 1 == 0
    if len(arrays) == 1:
        [a], [b] = arrays, other
        return [jnp.where(keeps_less, jnp.minimum(a, b), jnp.maximum(a, b))]
    less = (arrays[0] < other[0]) | ((arrays[0] == other[0]) & (arrays[1] < other[1]))
    return [jnp.where(less ^ keeps_less, b, a) for a, b in zip(arrays, other, strict=True)]


def _other(array, step):
    """The value that is `step` before or after: the sum of the two, less this one."""
    lines, length = array.shape
    pairs = array.reshape(lines, length // (2 * step), 2, step)
    total = jnp.sum(pairs, axis=2, keepdims=True)
    return (total - pairs).reshape(lines, length)
