"""Shift circularly, and sort pairs, on a TPU in Pallas.

A sample is one block. A shift is one roll and one select for each bit of the steps, without
gathers.

Arrays are (batch, tokens, channels), int16 or int32, the bits of floats. `steps` is a tuple of
integers from 0 to tokens - 1, or None. With a mask, real tokens come first, `lengths`, (batch,),
holds their numbers, `steps` is an array, (batch, channels), and padding becomes 0. `pack` and
`unpack` support masks with gaps.
"""

from functools import partial, reduce
from operator import or_

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from keras_permix.ops.backend.jax.keys import comparable, mirror
from keras_permix.ops.backend.jax.tpu.sort import LANES, VMEM
from keras_permix.ops.backend.jax.tpu.tiles import SUBLANES
from keras_permix.ops.backend.plan import power_of_two

WORD = 32  # bits


def shift(bits, steps, lengths=None, interpret=False):
    """Shift every channel towards larger token indices by its step."""
    return _call(_shift_kernel, "shift", [bits], steps, lengths, [bits], interpret)[0]


def sort_pairs(bits, steps, floating, lengths=None, interpret=False):
    """Shift, then sort pairs; also return the swapped pairs, as bits of int32."""
    kernel = partial(_sort_pairs_kernel, mirror=mirror(bits, floating))
    batch, tokens, channels = bits.shape
    rows = SUBLANES * pl.cdiv(tokens, 2 * SUBLANES * WORD)
    swaps = jax.ShapeDtypeStruct((batch, rows, channels), jnp.int32)
    return _call(kernel, "sort_pairs", [bits], steps, lengths, [bits, swaps], interpret)


def unsort_pairs(bits, swaps, steps, lengths=None, interpret=False):
    """Swap pairs back, then shift: the inverse of `sort_pairs` by the opposite steps."""
    operands, kernel = [bits, swaps], _unsort_pairs_kernel
    return _call(kernel, "unsort_pairs", operands, steps, lengths, [bits], interpret)[0]


def _move(bits, mask, interpret=False, *, back):
    """Bring the tokens that a mask, (batch, tokens), marks to the front, or back.

    Each bit of the distances takes one roll and one select.
    """
    batch, tokens, channels = bits.shape
    rows, lanes = _rows(tokens), min(LANES, channels)
    block = pl.BlockSpec((1, rows, lanes), lambda b, c: (b, 0, c))
    return pl.pallas_call(
        partial(_move_kernel, back=back),
        grid=(batch, pl.cdiv(channels, lanes)),
        in_specs=[pl.BlockSpec((1, rows, 1), lambda b, c: (b, 0, 0)), block],
        out_specs=block,
        out_shape=jax.ShapeDtypeStruct(bits.shape, bits.dtype),
        compiler_params=_parameters(rows),
        interpret=interpret,
        name=f"permix_{'unpack' if back else 'pack'}",
    )(_moves(mask, rows, back)[..., None], bits)


pack = partial(_move, back=False)
unpack = partial(_move, back=True)  # padding is undefined


def _moves(mask, rows, back):
    """Return one bit per row and power of two: whether the row takes the token at this distance.

    Tokens never collide if they move by the lowest bits of their distances first.
    """
    mask = jnp.pad(mask, ((0, 0), (0, rows - mask.shape[1])))
    row, powers = jnp.arange(rows, dtype="int32"), _powers(power_of_two(rows) - 1)
    padding, moves = (~mask).astype("int32"), 0
    for step in powers:  # a cumulative sum, faster than that of XLA
        padding += jnp.where(row < step, 0, jnp.roll(padding, step, axis=1))
    distance = jnp.where(mask, padding, 0)
    for step in powers:
        behind = jnp.roll(distance, -step, axis=1)
        taken = behind & step
        distance = jnp.where(taken != 0, behind, jnp.where(distance & step, 0, distance))
        moves |= jnp.roll(taken, step, axis=1) if back else taken
    return moves


def _call(kernel, name, operands, steps, lengths, results, interpret):
    batch, tokens, channels = operands[0].shape
    rows, lanes = _rows(tokens), min(LANES, channels)
    used = power_of_two(tokens) - 1
    if lengths is None or steps is None:  # the same for all samples
        steps = steps or (0,) * channels
        steps, used = np.array([steps], "int32"), reduce(or_, steps)
    own, times = len(steps) > 1, (1,) if lengths is None else (1, 2)

    def blocks(arrays):
        heights = [rows, *(array.shape[1] for array in arrays[1:])]
        return [pl.BlockSpec((1, height, lanes), lambda b, c: (b, 0, c)) for height in heights]

    return pl.pallas_call(
        partial(kernel, tokens=tokens if lengths is None else None, powers=_powers(used)),
        grid=(batch, pl.cdiv(channels, lanes)),
        in_specs=[
            pl.BlockSpec(memory_space=pltpu.SMEM),
            pl.BlockSpec((1, 1, lanes), lambda b, c: (b * own, 0, c)),
            *blocks(operands),
        ],
        out_specs=blocks(results),
        out_shape=[jax.ShapeDtypeStruct(array.shape, array.dtype) for array in results],
        scratch_shapes=[pltpu.VMEM((n * rows, lanes), jnp.int32) for n in times],
        compiler_params=_parameters(rows if lengths is None else 2 * rows),
        interpret=interpret,
        name=f"permix_{name}",
    )(np.array([tokens], "int32") if lengths is None else lengths, steps[:, None], *operands)


def _rows(tokens):
    return pl.cdiv(tokens, 2 * SUBLANES) * 2 * SUBLANES


def _parameters(rows):
    return pltpu.CompilerParams(vmem_limit_bytes=VMEM * pl.cdiv(rows, 4096))


def _powers(number):
    """Return the powers of two of the bits of a number."""
    return [1 << bit for bit in range(number.bit_length()) if number >> bit & 1]


def _move_kernel(moves, bits, out, *, back):
    x, moves = bits[0].astype(jnp.int32), jnp.broadcast_to(moves[0], bits.shape[1:])
    powers = _powers(power_of_two(len(x)) - 1)
    for step in powers[::-1] if back else powers:
        moved = pltpu.roll(x, step if back else len(x) - step, 0)
        x = jnp.where((moves & step) != 0, moved, x)
    out[0] = x.astype(out.dtype)


def _shift_kernel(lengths, steps, bits, out, _, *circle, tokens, powers):
    length = tokens or lengths[pl.program_id(0)]
    x = _shift(bits[0].astype(jnp.int32), steps[0], length, powers, *circle)
    out[0] = _clear(x, length).astype(out.dtype)


def _sort_pairs_kernel(lengths, steps, bits, out, swaps, work, *circle, tokens, powers, mirror):
    length = tokens or lengths[pl.program_id(0)]
    x = bits[0].astype(jnp.int32)
    first, second = _halves(x, steps[0], length, powers, work, *circle)
    swap = comparable(second, mirror) < comparable(first, mirror)
    if tokens is None:
        swap &= _row(first) < length >> 1
    x = _joined(first, second, swap, work)
    out[0] = _clear(x, length).astype(out.dtype)
    vectors = swap.astype(jnp.int32).reshape(-1, SUBLANES, swap.shape[1])
    for start in range(0, len(vectors), WORD):
        word = (array << i for i, array in enumerate(vectors[start : start + WORD]))
        row = start // WORD * SUBLANES
        swaps[0, row : row + SUBLANES, :] = reduce(or_, word)


def _unsort_pairs_kernel(lengths, steps, bits, swaps, out, work, *circle, tokens, powers):
    length = tokens or lengths[pl.program_id(0)]
    x = bits[0].astype(jnp.int32)
    first, second = _halves(x, steps[0], length, (), work)
    swap = []
    for i in range(len(first) // SUBLANES):
        row = i // WORD * SUBLANES
        swap.append((swaps[0, row : row + SUBLANES, :] >> (i % WORD)) & 1)
    x = _joined(first, second, jnp.concatenate(swap) == 1, work)
    x = _shift(x, steps[0], length, powers, *circle)
    out[0] = _clear(x, length).astype(out.dtype)


def _halves(x, steps, length, powers, work, circle=None):
    """Shift, and return the first and the second tokens of all pairs."""
    half = len(x) // 2
    if circle is None or not powers:
        work[: len(x), :] = _shift(x, steps, length, powers)
        return (work[pl.ds(start, half, 2), :] for start in (0, 1))
    _fill(circle, _rolled(x, steps, powers))

    def every_second(start):
        here, before = (circle[pl.ds(start + first, half, 2), :] for first in (0, length))
        return jnp.where(2 * _row(here) + start < steps, before, here)

    return map(every_second, (0, 1))


def _joined(first, second, swap, work):
    half = len(first)
    work[pl.ds(0, half, 2), :] = jnp.where(swap, second, first)
    work[pl.ds(1, half, 2), :] = jnp.where(swap, first, second)
    return work[: 2 * half, :]


def _shift(x, steps, length, powers, circle=None):
    """Shift the first `length` rows circularly, by a shift of all rows and a second part."""
    x, rows = _rolled(x, steps, powers), len(x)
    if not powers or (circle is None and length == rows):
        return x
    if circle is None:
        return jnp.where(_row(x) < steps, pltpu.roll(x, rows - length, 0), x)
    _fill(circle, x)
    return jnp.where(_row(x) < steps, circle[pl.ds(length, rows), :], x)


def _rolled(x, steps, powers):
    for step in powers:
        x = jnp.where((steps & step) != 0, pltpu.roll(x, step, 0), x)
    return x


def _fill(circle, x):
    """Write rows twice, so that they can be read circularly from any row."""
    circle[: len(x), :] = circle[len(x) :, :] = x


def _clear(x, length):
    """Set padding to 0, if there is a mask."""
    return x if isinstance(length, int) else jnp.where(_row(x) < length, x, 0)


def _row(x):
    return lax.broadcasted_iota(jnp.int32, x.shape, 0)
