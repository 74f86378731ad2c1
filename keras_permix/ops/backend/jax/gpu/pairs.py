"""Circular shifts, and shifts with sorted pairs, on a GPU, in Pallas by way of Triton.

A program fills a tile of tokens and channels, and gathers what belongs there. What the data
decided, one bit per pair, is one word per channel of a tile: all that the gradient needs.

Arrays are (batch, tokens, channels), int16 or int32, of which floats are the bits. `steps` is int32
of shape (channels,), from 0 to tokens - 1.
"""

from functools import partial

import jax
import jax.numpy as jnp
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton

from keras_permix.ops.backend.jax.keys import is_minus_zero, mirror, to_key

TOKENS, CHANNELS = 64, 32  # a tile; as many pairs as a word has bits


def shift(bits, steps, interpret=False):
    """Shift every channel towards larger tokens by its step."""
    return _call(_shift_kernel, "shift", [bits, steps], [bits], interpret)[0]


def sort_pairs(bits, steps, floating, interpret=False):
    """Shift, then sort pairs; also return which were swapped, as bits of int32."""
    kernel = partial(_sort_pairs_kernel, mirror=mirror(bits, floating))
    batch, tokens, channels = bits.shape
    swaps = jax.ShapeDtypeStruct((batch, pl.cdiv(tokens, TOKENS), channels), jnp.int32)
    return _call(kernel, "sort_pairs", [bits, steps], [bits, swaps], interpret)


def unsort_pairs(bits, swaps, steps, interpret=False):
    """Swap pairs back, then shift: the inverse of `sort_pairs` by the opposite steps."""
    return _call(_unsort_pairs_kernel, "unsort_pairs", [bits, steps, swaps], [bits], interpret)[0]


def _call(kernel, name, operands, results, interpret):
    batch, tokens, channels = operands[0].shape
    return pl.pallas_call(
        partial(kernel, tokens=tokens, channels=channels),
        grid=(batch, pl.cdiv(tokens, TOKENS), pl.cdiv(channels, CHANNELS)),
        out_shape=[jax.ShapeDtypeStruct(array.shape, array.dtype) for array in results],
        compiler_params=triton.CompilerParams(num_warps=4),
        interpret=interpret,
        name=f"permix_{name}",
    )(*operands)


def _shift_kernel(bits, steps, out, *, tokens, channels):
    token, channel = _tile(TOKENS, CHANNELS)
    inside = (token < tokens) & (channel < channels)
    source = _wrap(token - _load_steps(steps, channel), tokens)
    _store(out, token, channel, _load(bits, source, channel, inside), inside)


def _sort_pairs_kernel(bits, steps, out, swaps, *, tokens, channels, mirror):
    pair, channel = _tile(TOKENS // 2, CHANNELS)
    inside = (2 * pair < tokens) & (channel < channels)
    step = _load_steps(steps, channel)
    first = _load(bits, _wrap(2 * pair - step, tokens), channel, inside)
    second = _load(bits, _wrap(2 * pair + 1 - step, tokens), channel, inside)
    swap = _comparable(second, mirror) < _comparable(first, mirror)
    _store(out, 2 * pair, channel, jnp.where(swap, second, first), inside)
    _store(out, 2 * pair + 1, channel, jnp.where(swap, first, second), inside)
    bit = lax.broadcasted_iota(jnp.int32, swap.shape, 0)
    word = jnp.sum(swap.astype(jnp.int32) << bit, axis=0)
    channel = pl.program_id(2) * CHANNELS + lax.iota(jnp.int32, CHANNELS)
    row = swaps.at[pl.program_id(0), pl.program_id(1), channel]
    triton.store(row, word, mask=channel < channels)


def _unsort_pairs_kernel(bits, steps, swaps, out, *, tokens, channels):
    token, channel = _tile(TOKENS, CHANNELS)
    inside = (token < tokens) & (channel < channels)
    shifted = _wrap(token - _load_steps(steps, channel), tokens)
    word = _load(swaps, lax.div(shifted, TOKENS), channel, inside)
    swap = (word >> (lax.rem(shifted, TOKENS) >> 1)) & 1
    _store(out, token, channel, _load(bits, shifted ^ swap, channel, inside), inside)


def _tile(height, width):
    """The token, or pair, and the channel of every element of this program's tile."""
    row = lax.broadcasted_iota(jnp.int32, (height, width), 0)
    column = lax.broadcasted_iota(jnp.int32, (height, width), 1)
    return pl.program_id(1) * height + row, pl.program_id(2) * width + column


def _load(array, token, channel, inside):
    return triton.load(array.at[pl.program_id(0), token, channel], mask=inside, other=0)


def _load_steps(steps, channel):
    return triton.load(steps.at[channel], mask=channel < len(steps), other=0)


def _store(array, token, channel, value, inside):
    triton.store(array.at[pl.program_id(0), token, channel], value, mask=inside)


def _wrap(token, tokens):
    """A token that is less than once around, below the first or past the last."""
    return jnp.where(token < 0, token + tokens, token)


def _comparable(bits, mirror):
    """Keys of which those of -0.0 and 0.0 are equal."""
    key = to_key(bits.astype(jnp.int32), mirror)
    return key + is_minus_zero(key, mirror)
