"""Sort groups of tokens on a TPU in Pallas, by the network of `tiles.py`.

Groups are (batch, groups, tokens, channels), int16 or int32, the bits of floats. Kernels take them
concatenated, (tokens, channels), padded to a power of two with values that sort last. With a mask,
real tokens come first, and `lengths`, (batch,), holds their numbers; padding sorts last and
becomes 0. The rows of a sample must then fill whole vectors.
"""

from dataclasses import replace
from functools import partial
from math import gcd

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from keras_permix.ops.backend.jax.groups import fill_up
from keras_permix.ops.backend.jax.keys import mirror, to_key
from keras_permix.ops.backend.jax.tpu.tiles import SUBLANES, Tiles
from keras_permix.ops.backend.plan import power_of_two

LANES = 128
VECTORS = 32  # vectors of a tile; a TPU has 64 registers
BLOCK = 1024  # tokens of a block, half a MiB of int32, or a larger group
VMEM = 16 << 20  # bytes for blocks of up to 2048 tokens, which every TPU has; larger need more


def sort(groups, floating, lengths=None, interpret=False):
    """Sort every group."""
    kernel = partial(_sort_kernel, mirror=mirror(groups, floating))
    return _call(kernel, "sort", 1, [groups], [groups.dtype], lengths, interpret)[0]


def sort_with_positions(groups, floating, lengths=None, interpret=False):
    """Sort stably; also return the original position of each value in its group, int16."""
    kernel = partial(_sort_with_positions_kernel, floating=floating)
    name, dtypes = "sort_with_positions", [groups.dtype, jnp.int16]
    return _call(kernel, name, _words(groups), [groups], dtypes, lengths, interpret)


def unsort(groups, positions, lengths=None, interpret=False):
    """Undo `sort_with_positions`."""
    operands, dtypes = [groups, positions], [groups.dtype]
    return _call(_unsort_kernel, "unsort", _words(groups), operands, dtypes, lengths, interpret)[0]


def _words(groups):
    """Return the number of 32-bit words that hold a value and its position."""
    return 1 if groups.dtype == jnp.int16 else 2


def _call(kernel, name, words, operands, dtypes, lengths, interpret):
    batch, count, size, channels = operands[0].shape
    group_size = power_of_two(size)
    tokens = batch * count * group_size

    def as_rows(groups):
        filled = fill_up(groups, group_size, 2, jnp.iinfo(groups.dtype).max)
        return filled.reshape(tokens, channels)

    lanes, least = min(LANES, channels), max(group_size, SUBLANES * VECTORS)
    block = least * max(1, min(BLOCK // least, pl.cdiv(tokens, least)))
    tiles = Tiles(group_size, VECTORS, block, lanes)
    blocks, real = pl.cdiv(tokens, block), np.zeros((1, 1, 1), "int32")
    if lengths is not None:  # the real rows from each vector on
        starts = jnp.arange(0, count * group_size, SUBLANES, "int32")
        tiles = replace(tiles, vectors_per_length=gcd(VECTORS, len(starts)))
        real = (lengths // size * group_size + lengths % size)[:, None] - starts
        real = fill_up(real.reshape(-1), blocks * block // SUBLANES, 0, 0).reshape(blocks, 1, -1)
    spec = pl.BlockSpec((block, lanes), lambda t, c: (t, c))
    held = pltpu.VMEM((block // SUBLANES, SUBLANES, lanes), jnp.int32)
    rows = pl.pallas_call(
        partial(kernel, tiles=tiles),
        grid=(blocks, pl.cdiv(channels, lanes)),
        in_specs=[
            pl.BlockSpec(
                (1, *real.shape[1:]), lambda t, c: (t % len(real), 0, 0), memory_space=pltpu.SMEM
            ),
            *[spec] * len(operands),
        ],
        out_specs=[spec] * len(dtypes),
        out_shape=[jax.ShapeDtypeStruct((tokens, channels), dtype) for dtype in dtypes],
        scratch_shapes=[held] * words if group_size > tiles.size else [],
        compiler_params=pltpu.CompilerParams(vmem_limit_bytes=VMEM * pl.cdiv(block, 2048)),
        interpret=interpret,
        name=f"permix_{name}",
    )(real, *map(as_rows, operands))
    return [array.reshape(batch, count, group_size, channels)[:, :, :size] for array in rows]


def _sort_kernel(real, bits, out, *held, tiles, mirror):
    def read(tile):
        return [[to_key(word, mirror)] for word in tiles.load(bits, tile, real)]

    def write(tile, vectors):
        tiles.store(out, tile, [to_key(key, mirror) for [key] in vectors], real)

    tiles.sort(read, write, held, _less)


def _sort_with_positions_kernel(real, bits, out, positions, *held, tiles, floating):
    # Keys of -0.0 and 0.0 are equal, and a bit below the position stores the sign.
    least = jnp.iinfo(bits.dtype).min

    def read(tile):
        words = tiles.load(bits, tile, real)
        for word, position in zip(words, tiles.positions(tile), strict=True):
            key, low = word, position << 1
            if floating:
                key = jnp.where(word < 0, least - word, word)
                low += lax.shift_right_logical(word, 31)
            yield _join(key, low, bits.dtype)

    def write(tile, vectors):
        both = [_split(vector) for vector in vectors]
        words = [key for key, _ in both]
        if floating:
            words = [jnp.where((low & 1) != 0, least - key, key) for key, low in both]
        tiles.store(out, tile, words, real)
        tiles.store(positions, tile, [low >> 1 for _, low in both])

    tiles.sort(read, write, held, _less_of_floats if floating else _less)


def _unsort_kernel(real, bits, positions, out, *held, tiles):
    def read(tile):
        both = zip(tiles.load(positions, tile), tiles.load(bits, tile), strict=True)
        return [_join(position, value, bits.dtype) for position, value in both]

    def write(tile, vectors):
        tiles.store(out, tile, [_split(vector)[1] for vector in vectors], real)

    tiles.sort(read, write, held, _first_less)


def _join(high, low, dtype):
    """Join keys and the words below them; for 16 bits, they are halves of one word."""
    return [(high << 16) | (low & 0xFFFF)] if dtype == jnp.int16 else [high, low]


def _split(words):
    return words if len(words) == 2 else (words[0] >> 16, words[0] & 0xFFFF)


def _first_less(one, two):
    """Return whether the first word of `one` is less; the order of equal words is irrelevant."""
    return one[0] < two[0]


def _less(one, two):
    """Return whether `one` comes first, by the first word, then by the second."""
    if len(one) == 1:
        return one[0] < two[0]
    return (one[0] < two[0]) | ((one[0] == two[0]) & (one[1] < two[1]))


def _less_of_floats(one, two):
    """Return `_less` in fewer steps, if no first word is the smallest integer."""
    if len(one) == 1:
        return one[0] < two[0]
    return one[0] - lax.shift_right_logical(one[1] - two[1], 31) < two[0]
