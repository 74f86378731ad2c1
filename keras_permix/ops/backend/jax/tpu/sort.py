"""Sorting within groups of tokens on a TPU, in Pallas: kernels around the network of `tiles.py`.

Arrays are (tokens, channels), int16 or int32, of which floats are the bits.
"""

from functools import partial

import jax
import jax.numpy as jnp
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from keras_permix.ops.backend.jax.keys import mirror, to_key
from keras_permix.ops.backend.jax.tpu.tiles import SUBLANES, Tiles

LANES = 128
VECTORS = 32  # of a tile; a TPU has 64 registers
BLOCK = 1024  # tokens that are brought in at a time, half a MiB of int32, or a larger group
VMEM = 16 << 20  # what every TPU has, and blocks of 2048 tokens need; larger groups need more


def sort(bits, group_size, floating, interpret=False):
    """Sort within groups; `group_size` is a power of two and divides the tokens."""
    kernel = partial(_sort_kernel, mirror=mirror(bits, floating))
    return _call(kernel, "sort", group_size, 1, [bits], [bits.dtype], interpret)[0]


def sort_with_places(bits, group_size, floating, interpret=False):
    """Sort stably; also return the place in its group that each value came from, int16."""
    kernel = partial(_sort_with_places_kernel, floating=floating)
    dtypes = [bits.dtype, jnp.int16]
    return _call(kernel, "sort_with_places", group_size, _words(bits), [bits], dtypes, interpret)


def unsort(bits, places, group_size, interpret=False):
    """Bring what `sort_with_places` has sorted back to where it came from."""
    operands, dtypes = [bits, places], [bits.dtype]
    return _call(_unsort_kernel, "unsort", group_size, _words(bits), operands, dtypes, interpret)[0]


def _words(bits):
    """How many words of 32 bits hold a value and its place."""
    return 1 if bits.dtype == jnp.int16 else 2


def _call(kernel, name, group_size, words, operands, dtypes, interpret):
    tokens, channels = operands[0].shape
    lanes, least = min(LANES, channels), max(group_size, SUBLANES * VECTORS)
    block = least * max(1, min(BLOCK // least, pl.cdiv(tokens, least)))
    tiles = Tiles(group_size, VECTORS, block, lanes)
    spec = pl.BlockSpec((block, lanes), lambda t, c: (t, c))
    held = pltpu.VMEM((block // SUBLANES, SUBLANES, lanes), jnp.int32)
    return pl.pallas_call(
        partial(kernel, tiles=tiles),
        grid=(pl.cdiv(tokens, block), pl.cdiv(channels, lanes)),
        in_specs=[spec] * len(operands),
        out_specs=[spec] * len(dtypes),
        out_shape=[jax.ShapeDtypeStruct((tokens, channels), dtype) for dtype in dtypes],
        scratch_shapes=[held] * words if group_size > tiles.size else [],
        compiler_params=pltpu.CompilerParams(vmem_limit_bytes=VMEM * pl.cdiv(block, 2048)),
        interpret=interpret,
        name=f"permix_{name}",
    )(*operands)


def _sort_kernel(bits, out, *held, tiles, mirror):
    def read(tile):
        return [[to_key(word, mirror)] for word in tiles.load(bits, tile)]

    def write(tile, vectors):
        tiles.store(out, tile, [to_key(key, mirror) for [key] in vectors])

    tiles.sort(read, write, held, _less)


def _sort_with_places_kernel(bits, out, places, *held, tiles, floating):
    # Keys are of one value for -0.0 and 0.0, and a bit below the place remembers the sign.
    least = jnp.iinfo(bits.dtype).min

    def read(tile):
        for word, place in zip(tiles.load(bits, tile), tiles.places(tile), strict=True):
            key, low = word, place << 1
            if floating:
                key = jnp.where(word < 0, least - word, word)
                low += lax.shift_right_logical(word, 31)
            yield _join(key, low, bits.dtype)

    def write(tile, vectors):
        both = [_split(vector) for vector in vectors]
        words = [key for key, _ in both]
        if floating:
            words = [jnp.where((low & 1) != 0, least - key, key) for key, low in both]
        tiles.store(out, tile, words)
        tiles.store(places, tile, [low >> 1 for _, low in both])

    tiles.sort(read, write, held, _less_of_floats if floating else _less)


def _unsort_kernel(bits, places, out, *held, tiles):
    def read(tile):
        both = zip(tiles.load(places, tile), tiles.load(bits, tile), strict=True)
        return [_join(place, value, bits.dtype) for place, value in both]

    def write(tile, vectors):
        tiles.store(out, tile, [_split(vector)[1] for vector in vectors])

    tiles.sort(read, write, held, _first_less)


def _join(high, low, dtype):
    """What decides, and what is below it, as two words, or of 16 bits as the halves of one."""
    return [(high << 16) | (low & 0xFFFF)] if dtype == jnp.int16 else [high, low]


def _split(words):
    return words if len(words) == 2 else (words[0] >> 16, words[0] & 0xFFFF)


def _first_less(one, two):
    """Whether the first word of one is less; where both are equal, it does not matter."""
    return one[0] < two[0]


def _less(one, two):
    """Whether one comes first: by the first word, and where it is equal by the second."""
    if len(one) == 1:
        return one[0] < two[0]
    return (one[0] < two[0]) | ((one[0] == two[0]) & (one[1] < two[1]))


def _less_of_floats(one, two):
    """The same in fewer steps, where no first word is the least integer: it may be counted down."""
    if len(one) == 1:
        return one[0] < two[0]
    return one[0] - lax.shift_right_logical(one[1] - two[1], 31) < two[0]
