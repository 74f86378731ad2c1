"""The Pallas kernels of a GPU, for `keras_permix.ops.backend.jax.accelerators.Words`."""

from dataclasses import dataclass

import jax
import numpy as np

from keras_permix.ops.backend.jax.gpu import pairs
from keras_permix.ops.backend.jax.gpu import sort as sorting


@dataclass(frozen=True)
class Kernels:
    """Functions of bits, (batch, tokens, channels), or groups, (batch, groups, size, channels)."""

    interpret: bool = False

    def shift(self, bits, steps):
        return pairs.shift(bits, _table(steps, bits), self.interpret)

    def sort_pairs(self, bits, steps, floating):
        return pairs.sort_pairs(bits, _table(steps, bits), floating, self.interpret)

    def unsort_pairs(self, bits, swaps, steps):
        return pairs.unsort_pairs(bits, swaps, _table(steps, bits), self.interpret)

    def sort(self, groups, floating):
        return self._each_group(sorting.sort, groups, floating=floating)

    def sort_with_places(self, groups, floating):
        return self._each_group(sorting.sort_with_places, groups, floating=floating)

    def unsort(self, groups, places):
        return self._each_group(sorting.unsort, groups, places)

    def _each_group(self, function, *groups, **options):
        shape = groups[0].shape
        lines = [array.reshape(-1, *shape[2:]) for array in groups]
        results = function(*lines, **options, interpret=self.interpret)
        return jax.tree.map(lambda array: array.reshape(shape), results)


def _table(steps, bits):
    return np.array(steps or (0,) * bits.shape[2], "int32")
