"""The Pallas kernels of a TPU behind shapes that they do not ask for."""

from dataclasses import dataclass
from functools import partial, reduce
from operator import or_

import jax
import jax.numpy as jnp
import numpy as np

from keras_permix.ops.backend.jax.groups import fill_up
from keras_permix.ops.backend.jax.tpu import pairs
from keras_permix.ops.backend.jax.tpu import sort as sorting
from keras_permix.ops.backend.plan import power_of_two


@dataclass(frozen=True)
class Kernels:
    """Functions of bits, (batch, tokens, channels), or groups, (batch, groups, size, channels)."""

    interpret: bool = False

    def shift(self, bits, steps):
        return pairs.shift(bits, *_table(steps, bits), self.interpret)

    def sort_pairs(self, bits, steps, floating):
        return pairs.sort_pairs(bits, *_table(steps, bits), floating, self.interpret)

    def unsort_pairs(self, bits, swaps, steps):
        return pairs.unsort_pairs(bits, swaps, *_table(steps, bits), self.interpret)

    def sort(self, groups, floating):
        sort = partial(sorting.sort, floating=floating, interpret=self.interpret)
        return _in_rows(sort, groups)

    def sort_with_places(self, groups, floating):
        sort = partial(sorting.sort_with_places, floating=floating, interpret=self.interpret)
        return _in_rows(sort, groups)

    def unsort(self, groups, places):
        return _in_rows(partial(sorting.unsort, interpret=self.interpret), groups, places)


def _table(steps, bits):
    """The steps as an array, and the bits that any of them has."""
    steps = steps or (0,) * bits.shape[2]
    return np.array([steps], "int32"), reduce(or_, steps)


def _in_rows(function, *groups):
    """Groups one under the other, each filled up to a power of two with what sorts last."""
    batch, count, size, channels = groups[0].shape
    larger = power_of_two(size)

    def rows(groups):
        filled = fill_up(groups, larger, 2, jnp.iinfo(groups.dtype).max)
        return filled.reshape(-1, channels)

    def back(rows):
        return rows.reshape(batch, count, larger, channels)[:, :, :size]

    return jax.tree.map(back, function(*map(rows, groups), group_size=larger))
