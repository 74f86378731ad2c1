"""Permute tokens on TPUs in JAX, by Pallas kernels, or by XLA for calls without kernels.

Both implement the same six functions of integers, the bits of floats. TPUs gather slowly, so shifts
are rolls, and sorted values return to their positions by a sort.

Kernels require masks whose real tokens come first. For other masks, tokens are packed before a
kernel and unpacked after it, which is decided at run time.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from importlib import import_module

import jax.numpy as jnp
import numpy as np
from jax import lax

from keras_permix.ops.backend.jax import tpu_xla
from keras_permix.ops.backend.jax.groups import cut, join
from keras_permix.ops.backend.jax.keys import from_bits, is_floating, to_bits
from keras_permix.ops.backend.jax.permute import permute_on
from keras_permix.ops.backend.jax.runtime import divided, find_division, part_of
from keras_permix.ops.backend.jax.shift import clear
from keras_permix.ops.backend.plan import power_of_two


@dataclass(frozen=True)
class Pallas:
    """Return kernels by name, compiled or interpreted, and import them on the first call."""

    interpret: bool = False

    def __call__(self, name):
        file = "sort" if name in ("sort", "sort_with_positions", "unsort") else "pairs"
        module = import_module(f"{__package__}.tpu.{file}")
        return partial(getattr(module, name), interpret=self.interpret)


def in_xla(name):
    """Return the same functions in plain XLA."""
    return getattr(tpu_xla, name)


def permute(x, mask, plan, way):
    """Permute by `plan`; `way` returns each of the six functions by its name."""
    if not isinstance(way, Pallas):
        return permute_on(None, Words(way), x, mask, plan)
    platform = None if way.interpret else "tpu"
    return permute_on(platform, Words(way, find_division(x)), x, mask, plan)


@dataclass(frozen=True)
class Words:
    """Implement a kind of permutation by the six functions; see `permute.py`."""

    way: Callable
    division: tuple | None = None  # of the batch among devices

    def values(self, x, real, plan):
        if _in_pairs(x, real, plan) or plan.aligned or plan.group_size == 1:
            return self.values_and_residuals(x, real, plan)[0]
        bits = self._shift(_to_words(x), real, plan)
        sort = partial(self._sort, "sort", plan, is_floating(x.dtype))
        return from_bits(self._call(sort, real, bits)[0], x.dtype)

    def values_and_residuals(self, x, real, plan):
        bits, floating, residuals = _to_words(x), is_floating(x.dtype), None
        if _in_pairs(x, real, plan):
            sort = partial(self._shifted, "sort_pairs", plan, floating=floating)
            bits, residuals = self._call(sort, real, bits)
            return from_bits(bits, x.dtype), residuals
        bits = self._shift(bits, real, plan)
        if plan.group_size > 1:
            sort = partial(self._sort, "sort_with_positions", plan, floating)
            bits, residuals = self._call(sort, real, bits)
        return from_bits(bits, x.dtype), residuals

    def take(self, x, real, residuals, plan):
        bits = self._shift(_to_words(x), real, plan)
        if _in_pairs(x, real, plan):
            swap = partial(self._shifted, "unsort_pairs", plan._replace(steps=None))
            [bits] = self._call(swap, real and real._replace(steps=None), bits, residuals)
        elif plan.group_size > 1:
            [bits] = self._call(partial(_take, plan), real, bits, residuals)
        return from_bits(bits, x.dtype)

    def undo(self, grad, real, residuals, plan):
        bits, tokens = _to_words(grad), grad.shape[1]
        plan = plan._replace(steps=plan.steps and tuple(-step % tokens for step in plan.steps))
        real = real and real._replace(steps=real.back)
        if _in_pairs(grad, real, plan):
            swap = partial(self._shifted, "unsort_pairs", plan)
            return from_bits(self._call(swap, real, bits, residuals)[0], grad.dtype)
        if plan.group_size > 1:
            [bits] = self._call(partial(self._unsort, "unsort", plan), real, bits, residuals)
        return from_bits(self._shift(bits, real, plan), grad.dtype)

    def _shift(self, bits, real, plan):
        steps = plan.steps if real is None else real.steps
        if steps is None and (real is None or plan.group_size > 1):
            return bits
        return self._call(partial(self._shifted, "shift", plan), real, bits)[0]

    def _shifted(self, name, plan, real, *arrays, **options):
        """Call a function that takes steps."""
        if real is not None:
            options["lengths"] = real.lengths
        elif isinstance(self.way, Pallas) and part_of(arrays[0].shape[1]) < arrays[0].shape[1]:
            return self._shifted_in_parts(name, plan, *arrays, **options)
        steps = plan.steps if real is None else real.steps
        result = self.way(name)(*arrays, steps=steps, **options)
        return result if name == "sort_pairs" else [result]

    def _shifted_in_parts(self, name, plan, *arrays, **options):
        """For long samples, let kernels shift and swap within parts, and XLA shift parts."""
        batch, tokens, channels = arrays[0].shape
        size = part_of(tokens)
        count = tokens // size

        def call(name, *arrays, steps=None, **options):
            parts = (array.reshape(batch * count, -1, channels) for array in arrays)
            results = self.way(name)(*parts, steps=steps, **options)
            results = results if name == "sort_pairs" else [results]
            return [array.reshape(batch, -1, channels) for array in results]

        def shift(bits):
            if not plan.steps:
                return bits
            [bits] = call("shift", bits, steps=tuple(step % size for step in plan.steps))
            bits = bits.reshape(batch, count, size, channels)
            steps = np.array(plan.steps, "int32")
            # Values that pass the end of their part belong to the next part.
            far = steps // size + (jnp.arange(size)[:, None] < steps % size)
            for step in (1 << bit for bit in range(count.bit_length())):
                bits = jnp.where((far & step) != 0, jnp.roll(bits, step, axis=1), bits)
            return bits.reshape(batch, tokens, channels)

        if name == "unsort_pairs":
            return [shift(call(name, *arrays)[0])]
        bits = shift(*arrays)
        return [bits] if name == "shift" else call(name, bits, **options)

    def _sort(self, name, plan, floating, real, bits):
        options = _lengths(bits, real, plan)
        if real is not None and not options:
            bits = jnp.where(_first(bits, real), bits, _last(bits.dtype, floating, plan))
        groups = self.way(name)(_cut(bits, plan), floating=floating, **options)
        groups = [groups] if name == "sort" else _align(*groups) if plan.aligned else groups
        bits, *positions = (_flip(join(array, bits.shape[1]), plan) for array in groups)
        return [bits if options else _clear(bits, real), *positions]

    def _unsort(self, name, plan, real, bits, positions):
        # The padding of the last group gets the largest positions.
        options = _lengths(bits, real, plan)
        groups = self.way(name)(_cut(bits, plan), _cut(positions, plan), **options)
        bits = join(groups, bits.shape[1])
        return [bits if options else _clear(bits, real)]

    def _call(self, function, real, bits, *residuals):
        """Call `function(real, bits, *residuals)` on every device for its part of the batch.

        It returns a list of bits and residuals, of packed tokens.
        """
        if real is None:
            return divided(partial(function, None), self.division)(bits, *residuals)

        def call(real, *arrays):
            def moved(bits, *residuals):
                bits, *residuals = function(real, self.way("pack")(bits, real.mask), *residuals)
                return [clear(self.way("unpack")(bits, real.mask), real), *residuals]

            def as_they_are(*arrays):
                return list(function(real, *arrays))

            packed = (real.mask == _first(arrays[0], real)[..., 0]).all()
            return lax.cond(packed, as_they_are, moved, *arrays)

        return divided(call, self.division)(real, bits, *residuals)


def _in_pairs(x, real, plan):
    """Return whether to swap pairs; with a mask, the last of an odd number of tokens stays."""
    whole = real is not None or plan.in_pairs(x.shape[1])
    return plan.orders_pairs() and whole and not plan.aligned


def _first(x, real):
    """Mark the positions of packed real tokens."""
    return jnp.arange(x.shape[1], dtype="int32")[:, None] < real.lengths[:, None, None]


def _clear(bits, real):
    return bits if real is None else jnp.where(_first(bits, real), bits, 0)


def _lengths(bits, real, plan):
    """Return the option of kernels that fill and clear padding, if there is a mask.

    Kernels cannot do so in channels that are reversed afterwards, nor in samples that share a
    vector, 8 tokens, with others.
    """
    if real is None or plan.descending is not None:
        return {}
    group_size = plan.group_size
    rows = -(-bits.shape[1] // group_size) * power_of_two(group_size)
    return {"lengths": real.lengths} if rows % 8 == 0 else {}


def _last(dtype, floating, plan):
    """Return the value that sorts last, or first for channels that are reversed afterwards."""
    last, least = jnp.iinfo(dtype).max, jnp.iinfo(dtype).min
    least = -1 if floating else least
    return last if plan.descending is None else np.where(plan.descending, least, last).astype(dtype)


def _take(plan, real, bits, residuals):
    positions = cut(residuals, plan.group_size, 0).astype("int32")
    groups = jnp.take_along_axis(_cut(bits, plan), positions, axis=2)
    return [_clear(join(groups, bits.shape[1]), real)]


def _to_words(x):
    """Return integers of 16 or 32 bits."""
    bits = to_bits(x)
    return bits.astype("int32") if bits.dtype.itemsize == 1 or x.dtype == "uint8" else bits


def _cut(bits, plan):
    """Cut tokens into groups, (batch, groups, tokens, channels), and pad with the last value."""
    return cut(bits, plan.group_size, jnp.iinfo(bits.dtype).max)


def _flip(bits, plan):
    """Reverse descending channels, which are one group."""
    if plan.descending is None:
        return bits
    return jnp.where(np.array(plan.descending), bits[:, ::-1], bits)


def _align(groups, positions):
    """Give the tokens of every group the ranks of channel 0, by gathering whole rows."""
    rank = jnp.argsort(positions[..., :1].astype("int32"), axis=2)
    return (jnp.take_along_axis(array, rank, axis=2) for array in (groups, positions))
