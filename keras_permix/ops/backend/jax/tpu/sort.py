"""Sorting within groups of tokens on a TPU, in Pallas: a bitonic network on integers.

A block of tokens is taken as vectors of 8 sublanes, one vector for each value of the low bits of
the token: its high bits, or the numbers of small groups, lie on the sublanes. Stages of the network
compare whole vectors, but for the few of the last three sizes that cross sublanes.

Arrays are (tokens, channels), int16 or int32, of which floats are the bits.
"""

import math
from functools import partial

import jax
import jax.numpy as jnp
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from keras_permix.ops.backend.jax.keys import is_minus_zero, mirror, to_key

LANES, SUBLANES = 128, 8
MOST_VECTORS = 256  # a block: 2048 tokens, 1 MiB of int32; of larger groups each is a block
MOST_HELD = {1: 32, 2: 16}  # vectors held at a time, by the number of arrays
MOST_MOVED = 16  # vectors brought in or back in one turn of a loop, whose turns do not overlap
VMEM = 16 << 20  # what every TPU has, and such a block needs; larger groups need more


def sort(bits, group_size, floating, interpret=False):
    """Sort within groups; `group_size` is a power of two and divides the tokens."""
    kernel = partial(_sort_kernel, mirror=mirror(bits, floating))
    return _call(kernel, "sort", group_size, 1, [bits], [bits.dtype], interpret)[0]


def sort_with_places(bits, group_size, floating, interpret=False):
    """Sort stably; also return the place in its group that each value came from, int16."""
    kernel = partial(_sort_with_places_kernel, mirror=mirror(bits, floating))
    arrays = 1 if bits.dtype == jnp.int16 else 2
    dtypes = [bits.dtype, jnp.int16]
    return _call(kernel, "sort_with_places", group_size, arrays, [bits], dtypes, interpret)


def unsort(bits, places, group_size, interpret=False):
    """Bring what `sort_with_places` has sorted back to where it came from."""
    arrays = 1 if bits.dtype == jnp.int16 else 2
    operands, dtypes = [places, bits], [bits.dtype]
    return _call(_unsort_kernel, "unsort", group_size, arrays, operands, dtypes, interpret)[0]


def _call(kernel, name, group_size, arrays, operands, dtypes, interpret):
    tokens, channels = operands[0].shape
    vectors = _vectors(group_size)
    whole = SUBLANES * vectors
    block = whole * max(min(MOST_VECTORS // vectors, pl.cdiv(tokens, whole)), 1)
    spec = pl.BlockSpec((block, min(LANES, channels)), lambda t, c: (t, c))
    lanes = spec.block_shape[1]
    shapes = [(block, lanes)] * arrays + [(block // SUBLANES, SUBLANES, lanes)] * arrays
    return pl.pallas_call(
        partial(kernel, group_size=group_size),
        grid=(pl.cdiv(tokens, block), pl.cdiv(channels, LANES)),
        in_specs=[spec] * len(operands),
        out_specs=[spec] * len(dtypes),
        out_shape=[jax.ShapeDtypeStruct((tokens, channels), dtype) for dtype in dtypes],
        scratch_shapes=[pltpu.VMEM(shape, jnp.int32) for shape in shapes],
        compiler_params=pltpu.CompilerParams(vmem_limit_bytes=VMEM * pl.cdiv(block, 2048)),
        interpret=interpret,
        name=f"permix_{name}",
    )(*operands)


def _vectors(group_size):
    """How many vectors hold a group, or as many groups as there are sublanes."""
    return max(min(group_size, MOST_VECTORS), group_size // SUBLANES)


def _sort_kernel(bits, out, key, held, *, group_size, mirror):
    key[...] = to_key(bits[...].astype(jnp.int32), mirror)
    _run_network([key], [held], group_size)
    out[...] = to_key(key[...], mirror).astype(out.dtype)


def _sort_with_places_kernel(bits, out, places, *work, group_size, mirror):
    work, held = _two_halves(work)
    key = to_key(bits[...].astype(jnp.int32), mirror)
    place = lax.broadcasted_iota(jnp.int32, key.shape, 0) & (group_size - 1)
    minus = is_minus_zero(key, mirror)  # a bit below the place remembers it
    key, low = key + minus, 2 * place + minus
    _put(work, key, low)
    _run_network(work, held, group_size)
    key, low = _get(work)
    out[...] = to_key(key - (low & 1), mirror).astype(out.dtype)
    places[...] = (low >> 1).astype(places.dtype)


def _unsort_kernel(places, bits, out, *work, group_size):
    work, held = _two_halves(work)
    _put(work, places[...].astype(jnp.int32), bits[...].astype(jnp.int32))
    _run_network(work, held, group_size)
    out[...] = _get(work)[1].astype(out.dtype)


def _put(work, high, low):
    """Write what decides, and what is below it, to two arrays, or to the halves of one."""
    if len(work) == 2:
        work[0][...], work[1][...] = high, low
    else:
        work[0][...] = (high << 16) | (low & 0xFFFF)


def _get(work):
    if len(work) == 2:
        return work[0][...], work[1][...]
    return work[0][...] >> 16, work[0][...] & 0xFFFF


def _two_halves(refs):
    return refs[: len(refs) // 2], refs[len(refs) // 2 :]


def _run_network(tokens, held, group_size):
    """Sort `tokens` in place: by the first array, and where it is equal by the second."""
    vectors = _vectors(group_size)
    most = min(vectors, MOST_HELD[len(held)])
    _for_each_vector(tokens, held, vectors, _take_in)
    for one_pass in _passes(group_size, vectors, most):
        _run_pass(held, group_size, vectors, *one_pass)
    _for_each_vector(tokens, held, vectors, _give_back)


def _run_pass(held, group_size, vectors, sizes, across, steps):
    """Load vectors that are `stride` apart, take them through some stages, and store them."""
    count, stride = 2 * steps[0] // steps[-1], steps[-1]

    def work(turn, _):
        chunk, part = lax.div(turn, vectors // count), lax.rem(turn, vectors // count)
        first = lax.div(part, stride) * (count * stride) + lax.rem(part, stride)
        place = pl.ds(chunk * vectors + first, count, stride)
        arrays = [ref[place] for ref in held]
        for size in sizes[:-1]:
            arrays = _turn_half(_merge(_turn_half(arrays, size), size, steps), size)
        down = _down(first, vectors, sizes[-1], group_size, arrays[0].shape[1:])
        arrays = [array ^ down for array in arrays]
        for step in across:
            arrays = _across(arrays, step)
        arrays = _merge(arrays, sizes[-1], [step // stride for step in steps])
        for ref, array in zip(held, arrays, strict=True):
            ref[place] = array ^ down
        return _

    lax.fori_loop(0, held[0].shape[0] // count, work, 0)


def _for_each_vector(tokens, held, vectors, move):
    count = held[0].shape[0]
    at_once = math.gcd(count, MOST_MOVED)

    def work(turn, _):
        for vector in (turn * at_once + i for i in range(at_once)):
            chunk, part = lax.div(vector, vectors), lax.rem(vector, vectors)
            place = pl.ds(chunk * (SUBLANES * vectors) + part, SUBLANES, vectors)
            for pair in zip(tokens, held, strict=True):
                move(*pair, place, vector)
        return _

    lax.fori_loop(0, count // at_once, work, 0)


def _take_in(tokens, held, place, vector):
    held[vector] = tokens[place, :]


def _give_back(tokens, held, place, vector):
    tokens[place, :] = held[vector]


def _passes(group_size, vectors, most_held):
    """Yield (sizes, sublane steps, vector steps): what is done to vectors while they are held."""
    most = most_held.bit_length() - 1
    yield [2 << i for i in range(most)], [], [1 << i for i in reversed(range(most))]
    size = 2 * most_held
    while size <= group_size:
        steps = [1 << i for i in reversed(range(size.bit_length() - 1))]
        across = [step // vectors for step in steps if step >= vectors]
        steps = [step for step in steps if step < vectors]
        for i in range(0, len(steps), most):
            yield [size], across, steps[i : i + most]
            across = []
        size *= 2


def _down(first, vectors, size, group_size, shape):
    """All bits of the sublanes that are to descend: those of tokens that have the bit `size`."""
    if size == group_size:
        return 0
    token = lax.broadcasted_iota(jnp.int32, shape, 0) * vectors + first
    return -lax.shift_right_logical(token & size, size.bit_length() - 1)


def _turn_half(held, size):
    """Turn the order of the vectors whose number has the bit `size`."""
    shape = held[0].shape
    held = [array.reshape(-1, 2, size, *shape[1:]) for array in held]
    return [jnp.stack([array[:, 0], ~array[:, 1]], axis=1).reshape(shape) for array in held]


def _merge(held, size, steps):
    """Order vectors that are a step apart, step after step."""
    shape = held[0].shape
    for step in steps:
        if step < size:
            held = [array.reshape(-1, 2, step, *shape[1:]) for array in held]
            pair = _exchange([array[:, 0] for array in held], [array[:, 1] for array in held])
            held = [jnp.stack(two, axis=1).reshape(shape) for two in zip(*pair, strict=True)]
    return held


def _across(held, step):
    """Order the sublanes that are `step` apart."""
    first = (lax.broadcasted_iota(jnp.int32, held[0].shape, 1) & step) == 0
    other = [
        jnp.where(first, pltpu.roll(array, SUBLANES - step, 1), pltpu.roll(array, step, 1))
        for array in held
    ]
    low, high = _exchange(held, other)
    return [jnp.where(first, a, b) for a, b in zip(low, high, strict=True)]


def _exchange(one, two):
    """The smaller and the larger of each pair, by one comparison."""
    less = one[0] < two[0]
    if len(one) == 2:
        less |= (one[0] == two[0]) & (one[1] < two[1])
    pairs = list(zip(one, two, strict=True))
    return [jnp.where(less, a, b) for a, b in pairs], [jnp.where(less, b, a) for a, b in pairs]
