"""The Pallas kernels of a TPU behind shapes that they do not ask for."""

from dataclasses import dataclass

import jax.numpy as jnp
from jax import lax

from keras_permix.ops._tables import power_of_two
from keras_permix.ops.kernels import pallas_tpu_pairs as pairs
from keras_permix.ops.kernels import pallas_tpu_sort as sorting


@dataclass(frozen=True)
class Kernels:
    """Functions of bits, (batch, tokens, channels), or groups, (batch, groups, size, channels)."""

    interpret: bool = False

    def shift(self, bits, steps):
        return pairs.shift(bits, steps, self.interpret)

    def sort_pairs(self, bits, steps, floating):
        steps = steps or (0,) * bits.shape[2]
        return pairs.sort_pairs(bits, steps, floating, self.interpret)

    def unsort_pairs(self, bits, swaps, steps):
        steps = steps or (0,) * bits.shape[2]
        return pairs.unsort_pairs(bits, swaps, steps, self.interpret)

    def sort(self, groups, floating):
        rows, size = _rows(groups)
        return _groups(sorting.sort(rows, size, floating, self.interpret), groups)

    def sort_with_places(self, groups, floating):
        rows, size = _rows(groups)
        both = sorting.sort_with_places(rows, size, floating, self.interpret)
        return tuple(_groups(rows, groups) for rows in both)

    def unsort(self, groups, places):
        (rows, size), (places, _) = _rows(groups), _rows(places)
        return _groups(sorting.unsort(rows, places, size, self.interpret), groups)


def _rows(groups):
    """Groups one under the other, each filled up to a power of two with what sorts last."""
    size = power_of_two(groups.shape[2])
    fill = jnp.array(jnp.iinfo(groups.dtype).max, groups.dtype)
    widths = [(0, 0, 0), (0, 0, 0), (0, size - groups.shape[2], 0), (0, 0, 0)]
    return lax.pad(groups, fill, widths).reshape(-1, groups.shape[3]), size


def _groups(rows, groups):
    batch, count, size, channels = groups.shape
    return rows.reshape(batch, count, -1, channels)[:, :, :size]
