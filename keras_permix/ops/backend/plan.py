"""What is known before any tensor is: plans and index tables, made in NumPy."""

from functools import lru_cache
from typing import NamedTuple

import numpy as np


class Plan(NamedTuple):
    """One permutation of tokens, as the native implementations see it."""

    steps: tuple | None  # shift of every channel, None for no shift
    group_size: int
    aligned: bool = False  # to the groups of channel 0
    descending: tuple | None = None  # one boolean a channel, None for none

    def in_pairs(self, tokens):
        return self.group_size == 2 and tokens % 2 == 0 and self.descending is None

    def only_shift(self):
        return Plan(self.steps, group_size=1)

    def is_identity(self):
        return self.group_size == 1 and self.steps is None


def plan_csp(tokens, steps, group_size, align):
    """Channel 0 of an aligned plan is its own leader: unshifted, it takes its own ranks."""
    aligned = align == "reference"
    if aligned and steps is not None:
        steps = (0, *steps[1:])
    return Plan(steps, tokens if group_size is None else group_size, aligned)


def plan_slice_sort(tokens, descending):
    return Plan(None, tokens, descending=descending if any(descending) else None)


@lru_cache(maxsize=256)
def shift_places(steps, tokens, back=False):
    """Where each sample of the shifted row comes from; a row is tokens * channels samples."""
    steps = np.array(steps) % tokens
    channels = len(steps)
    from_token = (np.arange(tokens)[:, None] + (steps if back else -steps)) % tokens
    return (from_token * channels + np.arange(channels)).astype("int32").ravel()


def small_integer(size):
    """The smallest unsigned type that counts to `size`."""
    return np.min_scalar_type(size - 1).name


def power_of_two(length):
    return 1 << (length - 1).bit_length()
