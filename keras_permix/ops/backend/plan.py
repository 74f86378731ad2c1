"""What is known before any tensor is: plans and index tables, made in NumPy."""

from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

SORTING = ("csp", "group_sort", "slice_sort")
PERMUTING = ("channel_shift", *SORTING)  # the ops that a plan describes


class Plan(NamedTuple):
    """One permutation of tokens: every channel is shifted, then sorted in groups."""

    steps: Any = (
        None  # a tuple, the shift of every channel, or a `ShiftSchedule`; None for no shift
    )
    group_size: int | None = None  # tokens per group, None for all of them
    aligned: bool = False  # to the groups of channel 0
    descending: tuple[bool, ...] | None = None  # one boolean per channel, None for none

    def at(self, tokens):
        """The same for so many tokens: steps from 0 to `tokens` - 1, and a known group size.

        Channel 0 of an aligned plan is its own leader: unshifted, it takes its own ranks.
        """
        steps = None if self.steps is None else steps_at(self.steps, tokens)
        if steps and self.aligned:
            steps = (0, *steps[1:])
        group_size = tokens if self.group_size is None else min(self.group_size, tokens)
        return self._replace(steps=steps if steps and any(steps) else None, group_size=group_size)

    def orders_pairs(self):
        return self.group_size == 2 and self.descending is None

    def in_pairs(self, tokens):
        return self.orders_pairs() and tokens % 2 == 0

    def is_identity(self):
        return self.group_size == 1 and self.steps is None


def steps_at(steps, tokens):
    """A tuple of steps from 0 to `tokens` - 1, from one of any integers or a `ShiftSchedule`."""
    return _reduced(steps, tokens) if isinstance(steps, tuple) else steps.at(tokens)


@lru_cache(maxsize=256)
def _reduced(steps, tokens):
    return tuple(step % max(tokens, 1) for step in steps)


def remainders(numbers, divisor, to_tensor, bits, digit):
    """Divide Python integers of any size by numbers of tokens: Horner's rule.

    Args:
        numbers: Python integers of any sign and size.
        divisor: A positive integer, or a tensor of such.
        to_tensor: Makes a tensor of integers, which have so many `bits` besides their sign.
        bits, digit: A remainder and one more digit, of so many bits, must fit into `bits`.

    Returns:
        A tensor of the remainders, from 0, that broadcasts `numbers` and `divisor`.
    """
    longest = max(number.bit_length() for number in numbers)
    digits = -(-max(longest - bits, 0) // digit)
    rest = to_tensor([number >> digit * digits for number in numbers]) % divisor
    for low in reversed(range(digits)):
        part = [(number >> digit * low) % (1 << digit) for number in numbers]
        rest = (rest * (1 << digit) + to_tensor(part)) % divisor
    return rest


def shift_places(steps, tokens, back=False):
    """Where each of `tokens * channels` values, shifted, comes from."""
    steps = np.array(steps) % tokens
    channels = len(steps)
    from_token = (np.arange(tokens)[:, None] + (steps if back else -steps)) % tokens
    return (from_token * channels + np.arange(channels)).astype("int32").ravel()


def small_integer(size):
    """The smallest unsigned type that counts to `size`."""
    return np.min_scalar_type(size - 1).name


def power_of_two(length):
    return 1 << (length - 1).bit_length()
