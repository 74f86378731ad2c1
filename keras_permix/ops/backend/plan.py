"""Describe permutations, calls of ops, and implementations with the calls that they support."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from importlib.util import find_spec
from typing import Any, NamedTuple

import numpy as np

SORTING = ("csp", "group_sort", "slice_sort")
UNKNOWN = "unknown"
PERMUTING = ("channel_shift", *SORTING)  # the ops that a plan describes


class Plan(NamedTuple):
    """Describe a permutation of tokens: every channel is shifted, then sorted in groups."""

    steps: Any = None  # a tuple of one integer per channel, or a `ShiftSchedule`; None: no shift
    group_size: int | None = None  # tokens per group, None for all tokens
    aligned: bool = False  # whether groups take the ranks of channel 0
    descending: tuple[bool, ...] | None = None  # one boolean per channel, None: all ascending

    def at(self, tokens):
        """Return the plan for `tokens` tokens: steps from 0 to `tokens` - 1, known group size.

        Channel 0 of an aligned plan is not shifted, so that its own ranks leave it unchanged.
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


def steps_at(steps, tokens):
    """Return a tuple of steps from 0 to `tokens` - 1."""
    return _reduced(steps, tokens) if isinstance(steps, tuple) else steps.at(tokens)


@lru_cache(maxsize=256)
def _reduced(steps, tokens):
    return tuple(step % max(tokens, 1) for step in steps)


def remainders(numbers, divisor, to_tensor, bits, digit):
    """Return Python integers of any size modulo numbers of tokens, by Horner's rule.

    `divisor` is a positive integer, or a tensor of them, which is broadcast with `numbers`.
    `to_tensor` makes a tensor of integers, which have `bits` bits without the sign. A remainder and
    one more digit, of `digit` bits, must fit into them.
    """
    longest = max(number.bit_length() for number in numbers)
    digits = -(-max(longest - bits, 0) // digit)
    rest = to_tensor(tuple(number >> digit * digits for number in numbers)) % divisor
    for low in reversed(range(digits)):
        part = tuple((number >> digit * low) % (1 << digit) for number in numbers)
        rest = (rest * (1 << digit) + to_tensor(part)) % divisor
    return rest


def shift_positions(steps, tokens, back=False):
    """Return the source of each of `tokens * channels` shifted values."""
    steps = np.array(steps) % tokens
    channels = len(steps)
    from_token = (np.arange(tokens)[:, None] + (steps if back else -steps)) % tokens
    return (from_token * channels + np.arange(channels)).astype("int32").ravel()


def small_integer(size):
    """Return the smallest unsigned dtype that holds 0 to `size` - 1; for an unknown size, int32."""
    return np.min_scalar_type(size - 1).name if isinstance(size, int) else "int32"


def power_of_two(length):
    return 1 << (length - 1).bit_length()


class Hardware(NamedTuple):
    """Describe the device of a call, as far as it is known."""

    platform: str = UNKNOWN  # such as "cpu" or "cuda"
    devices: int = 1  # number of devices that the call may be divided among
    sure: bool = True  # False if the program may be compiled for another platform
    chip: Any = None  # one of the devices, if its kind matters
    undivided: str | None = None  # why a kernel cannot be called on each device


@dataclass(frozen=True)
class Call:
    """Hold the static facts of a call, which select its implementation."""

    op: str
    hardware: Hardware
    dtype: str
    shape: tuple
    masked: bool
    exporting: bool
    plan: Plan | None
    options: dict
    symbolic: bool = False  # a node of a functional model, which is dispatched when it runs

    def __str__(self):
        options = "".join(f", {k}={_shorten(v)}" for k, v in self.options.items())
        several = f" ({self.hardware.devices})" if self.hardware.devices > 1 else ""
        return (
            f"x.shape={self.shape}, dtype={self.dtype}, device={self.hardware.platform}{several}, "
            f"mask={'given' if self.masked else None}{options}"
        )


@dataclass(frozen=True)
class Implementation:
    """Describe an implementation of an op and the calls that it supports."""

    op: str
    name: str
    function: Callable
    devices: tuple = ()  # platforms; empty: all
    limit: Callable[[Call], str | None] | None = None  # returns further objections
    elsewhere: str | None = None  # the implementation that it compiles for other platforms
    requires: str | None = None  # an optional package
    dtypes: tuple = ()
    group_sizes: tuple = ()
    max_group: int | None = None
    masks: bool = False
    ragged: bool = False
    dynamic: bool = False  # supports a number of tokens that is unknown while tracing
    exported: bool = True  # can be exported to a program that runs without this package
    installed: bool = field(init=False)  # looked up once, because compiled functions cannot

    def __post_init__(self):
        found = self.requires is None or find_spec(self.requires) is not None
        object.__setattr__(self, "installed", found)

    def objection(self, call):
        """Return why this implementation does not support `call`, or None if it does."""
        tokens = call.shape[1] if call.shape[1:] else None
        plan = call.plan or Plan()
        group = tokens if plan.group_size is None else plan.group_size
        platform = call.hardware.platform
        if self.devices and platform not in self.devices and not call.symbolic:
            unknown = ", but the device is not known" if platform == UNKNOWN else ""
            return f"it requires device {' or '.join(self.devices)}{unknown}"
        if not self.installed:
            return f"it requires the package {self.requires}"
        if self.dtypes and call.dtype not in self.dtypes:
            return f"it requires dtype {' or '.join(self.dtypes)}"
        if group and self.group_sizes and group not in self.group_sizes:
            return f"it requires group_size {' or '.join(map(str, self.group_sizes))}"
        if call.masked and not self.masks:
            return "it does not support masks"
        if 0 in call.shape:
            return "it does not support empty tensors"
        if tokens is None and not self.dynamic and not call.symbolic:
            return "it requires a known number of tokens"
        if not self.ragged and tokens and group and tokens % group:
            return "it requires groups of equal size"
        if group and self.max_group is not None and group > self.max_group:
            return f"it supports groups of at most {self.max_group} tokens"
        if call.exporting and not self.exported:
            return "it cannot be exported"
        return self.limit(call) if self.limit and not call.symbolic else None

    def doubt(self, call):
        """Return why the choice for a symbolic call is open, or None."""
        if not call.symbolic:
            return None
        if self.devices:
            return "unknown until run time: it depends on the device"
        if call.shape[1] is None and not self.dynamic:
            return "unknown until run time: it depends on the number of tokens"
        return None


def _shorten(value):
    if isinstance(value, tuple) and len(value) > 4:
        return f"({', '.join(map(str, value[:3]))}, … {len(value)} in all)"
    return value
