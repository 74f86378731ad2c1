"""Permutations for TPUs in JAX: kernels in Pallas, and XLA for calls that these do not take.

Both ways are the same six functions of integers, which are the bits of floats. A TPU gathers
slowly, so shifts are rolls, and sorted values return to their places through a sort by these.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from importlib import import_module

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from keras_permix.ops.backend.jax import tpu_xla
from keras_permix.ops.backend.jax.groups import cut, join
from keras_permix.ops.backend.jax.keys import from_bits, is_floating, to_bits
from keras_permix.ops.backend.jax.permute import permute as permute_natively
from keras_permix.ops.backend.jax.permute import permute_as
from keras_permix.ops.backend.jax.runtime import Division, divided, find_division


@dataclass(frozen=True)
class Pallas:
    """The kernels by name, compiled or interpreted. The first call imports them, slowly."""

    interpret: bool = False

    def __call__(self, name):
        file = "pairs" if name == "shift" or name.endswith("pairs") else "sort"
        module = import_module(f"{__package__}.tpu.{file}")
        return partial(getattr(module, name), interpret=self.interpret)


def in_xla(name):
    """The same functions in plain XLA."""
    return getattr(tpu_xla, name)


def permute(x, mask, plan, way):
    """Permute without a mask; `way` returns each of the six functions by its name."""
    if not isinstance(way, Pallas):
        return _permute(x, plan, Words(way))
    return _permute(x, plan, Words(way, find_division(x)), None if way.interpret else "tpu")


@partial(jax.jit, static_argnames=("plan", "words", "platform"))
def _permute(x, plan, words, platform=None):
    """Permute by `words`, or where those are of one platform and this is another natively.

    The platform is known no sooner than the program is lowered: neither where it is traced nor
    where the default devices are need be where it runs.
    """

    def by_words(x):
        return permute_as(words, x, None, plan.at(x.shape[1]))

    if platform is None:
        return by_words(x)
    native = partial(permute_natively, mask=None, plan=plan)
    return lax.platform_dependent(x, default=native, **{platform: by_words})


@dataclass(frozen=True)
class Words:
    """A kind of permutation, of what the six functions take."""

    way: Callable
    division: Division | None = None  # of the batch, by which each device calls them for its part

    def values(self, x, real, plan):
        if _in_pairs(x, plan) or plan.aligned or plan.group_size == 1:
            return self.values_and_trace(x, real, plan)[0]
        bits = self._shift(_to_words(x), plan.steps)
        groups = self._call("sort", _cut(bits, plan), floating=is_floating(x.dtype))
        return from_bits(_turn(join(groups, x.shape[1]), plan), x.dtype)

    def values_and_trace(self, x, real, plan):
        bits, floating, trace = _to_words(x), is_floating(x.dtype), None
        if _in_pairs(x, plan):
            bits, trace = self._call("sort_pairs", bits, steps=plan.steps, floating=floating)
            return from_bits(bits, x.dtype), trace
        bits = self._shift(bits, plan.steps)
        if plan.group_size > 1:
            groups = self._call("sort_with_places", _cut(bits, plan), floating=floating)
            groups = _align(*groups) if plan.aligned else groups
            bits, trace = (_turn(join(array, x.shape[1]), plan) for array in groups)
        return from_bits(bits, x.dtype), trace

    def take(self, x, real, trace, plan):
        bits = self._shift(_to_words(x), plan.steps)
        if _in_pairs(x, plan):
            bits = self._call("unsort_pairs", bits, trace, steps=None)
        elif plan.group_size > 1:
            places = cut(trace, plan.group_size, 0).astype("int32")
            bits = jnp.take_along_axis(_cut(bits, plan), places, axis=2)
            bits = join(bits, x.shape[1])
        return from_bits(bits, x.dtype)

    def undo(self, grad, real, trace, plan):
        bits, tokens = _to_words(grad), grad.shape[1]
        back = plan.steps and tuple(-step % tokens for step in plan.steps)
        if _in_pairs(grad, plan):
            bits = self._call("unsort_pairs", bits, trace, steps=back)
            return from_bits(bits, grad.dtype)
        if plan.group_size > 1:
            # Places beyond all others for what fills the last group up.
            places = _cut(trace, plan)
            bits = join(self._call("unsort", _cut(bits, plan), places), tokens)
        return from_bits(self._shift(bits, back), grad.dtype)

    def _shift(self, bits, steps):
        return self._call("shift", bits, steps=steps) if steps else bits

    def _call(self, name, *arrays, **options):
        """Call one of the six functions of these arrays, whose first axis is the batch."""
        function = partial(self.way(name), **options)
        return divided(function, self.division)(*arrays)


def _in_pairs(x, plan):
    return plan.in_pairs(x.shape[1]) and not plan.aligned


def _to_words(x):
    """16 or 32 bits."""
    bits = to_bits(x)
    return bits.astype("int32") if bits.dtype.itemsize == 1 or x.dtype == "uint8" else bits


def _cut(bits, plan):
    """Groups, (batch, groups, tokens, channels), the last one filled up with what sorts last."""
    return cut(bits, plan.group_size, jnp.iinfo(bits.dtype).max)


def _turn(bits, plan):
    """Let the channels descend that are to. They are one group."""
    if plan.descending is None:
        return bits
    return jnp.where(np.array(plan.descending), bits[:, ::-1], bits)


def _align(groups, places):
    """Give the tokens of every group the ranks of the group of channel 0. It gathers whole rows."""
    rank = jnp.argsort(places[..., :1].astype("int32"), axis=2)
    return (jnp.take_along_axis(array, rank, axis=2) for array in (groups, places))
