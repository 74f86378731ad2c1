"""Circular shifts, and shifts with sorted pairs, on a TPU, in Pallas.

A sample is one block. A shift is one roll and one choice for each bit of the steps; no index is
gathered.

Arrays are (batch, tokens, channels), int16 or int32, of which floats are the bits. `steps` is a
tuple of integers from 0 to tokens - 1, or None.
"""

from functools import partial, reduce
from operator import or_

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from keras_permix.ops.backend.jax.keys import is_minus_zero, mirror, to_key
from keras_permix.ops.backend.jax.tpu.sort import LANES, VMEM
from keras_permix.ops.backend.jax.tpu.tiles import SUBLANES

WORD = 32  # bits


def shift(bits, steps, interpret=False):
    """Shift every channel towards larger tokens by its step."""
    return _call(_shift_kernel, "shift", [bits], steps, [bits], interpret)[0]


def sort_pairs(bits, steps, floating, interpret=False):
    """Shift, then sort pairs; also return which were swapped, as bits of int32."""
    kernel = partial(_sort_pairs_kernel, mirror=mirror(bits, floating))
    batch, tokens, channels = bits.shape
    rows = SUBLANES * pl.cdiv(tokens, 2 * SUBLANES * WORD)
    swaps = jax.ShapeDtypeStruct((batch, rows, channels), jnp.int32)
    return _call(kernel, "sort_pairs", [bits], steps, [bits, swaps], interpret)


def unsort_pairs(bits, swaps, steps, interpret=False):
    """Swap pairs back, then shift: the inverse of `sort_pairs` by the opposite steps."""
    operands, kernel = [bits, swaps], _unsort_pairs_kernel
    return _call(kernel, "unsort_pairs", operands, steps, [bits], interpret)[0]


def _call(kernel, name, operands, steps, results, interpret):
    batch, tokens, channels = operands[0].shape
    steps = steps or (0,) * channels
    lanes = min(LANES, channels)
    rows = pl.cdiv(tokens, 2 * SUBLANES) * 2 * SUBLANES

    def blocks(arrays):
        heights = [rows, *(array.shape[1] for array in arrays[1:])]
        return [pl.BlockSpec((1, height, lanes), lambda b, c: (b, 0, c)) for height in heights]

    return pl.pallas_call(
        partial(kernel, tokens=tokens, used=reduce(or_, steps)),
        grid=(batch, pl.cdiv(channels, lanes)),
        in_specs=[pl.BlockSpec((1, lanes), lambda b, c: (0, c)), *blocks(operands)],
        out_specs=blocks(results),
        out_shape=[jax.ShapeDtypeStruct(array.shape, array.dtype) for array in results],
        scratch_shapes=[pltpu.VMEM((rows, lanes), jnp.int32)],
        compiler_params=pltpu.CompilerParams(vmem_limit_bytes=VMEM * pl.cdiv(rows, 4096)),
        interpret=interpret,
        name=f"permix_{name}",
    )(np.array([steps], "int32"), *operands)


def _shift_kernel(steps, bits, out, _, *, tokens, used):
    x = _shift(bits[0].astype(jnp.int32), steps[...], tokens, used)
    out[0] = x.astype(out.dtype)


def _sort_pairs_kernel(steps, bits, out, swaps, work, *, tokens, used, mirror):
    work[...] = _shift(bits[0].astype(jnp.int32), steps[...], tokens, used)
    first, second = _halves(work)
    swap = _comparable(second, mirror) < _comparable(first, mirror)
    _put_pairs(work, first, second, swap)
    out[0] = work[...].astype(out.dtype)
    vectors = swap.astype(jnp.int32).reshape(-1, SUBLANES, swap.shape[1])
    for start in range(0, len(vectors), WORD):
        word = (array << i for i, array in enumerate(vectors[start : start + WORD]))
        row = start // WORD * SUBLANES
        swaps[0, row : row + SUBLANES, :] = reduce(or_, word)


def _unsort_pairs_kernel(steps, bits, swaps, out, work, *, tokens, used):
    work[...] = bits[0].astype(jnp.int32)
    first, second = _halves(work)
    swap = []
    for i in range(len(first) // SUBLANES):
        row = i // WORD * SUBLANES
        swap.append((swaps[0, row : row + SUBLANES, :] >> (i % WORD)) & 1)
    _put_pairs(work, first, second, jnp.concatenate(swap) == 1)
    out[0] = _shift(work[...], steps[...], tokens, used).astype(out.dtype)


def _halves(work):
    half = work.shape[0] // 2
    return work[pl.ds(0, half, 2), :], work[pl.ds(1, half, 2), :]


def _put_pairs(work, first, second, swap):
    half = work.shape[0] // 2
    work[pl.ds(0, half, 2), :] = jnp.where(swap, second, first)
    work[pl.ds(1, half, 2), :] = jnp.where(swap, first, second)


def _comparable(bits, mirror):
    """Keys of which those of -0.0 and 0.0 are equal."""
    key = to_key(bits, mirror)
    return key + is_minus_zero(key, mirror)


def _shift(x, steps, tokens, used):
    step = 1
    while step <= used:
        if step & used:
            x = jnp.where((steps & step) != 0, _roll(x, step, tokens), x)
        step *= 2
    return x


def _roll(x, step, tokens):
    """Roll the first `tokens` rows; those below only fill the last vector."""
    rolled = pltpu.roll(x, step, 0)
    if len(x) == tokens:
        return rolled
    row = lax.broadcasted_iota(jnp.int32, x.shape, 0)
    return jnp.where(row < step, pltpu.roll(x, len(x) + step - tokens, 0), rolled)
