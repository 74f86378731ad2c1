"""Compute the shift steps of Channel-wise Sample Permutation."""

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from operator import index
from typing import Any, Self, TypeAlias

import keras
import numpy as np
from keras import ops

from keras_permix._typing import Tensor
from keras_permix.utils.checks import check_choice, check_integer, check_layer_index

LARGEST_TABLE = 1 << 22  # entries of a table of power schedules, for all lengths of masked samples
REMEMBERED = 64  # numbers of tokens to cache
Shift: TypeAlias = str | Sequence[int] | np.ndarray


@keras.saving.register_keras_serializable("keras_permix")
@dataclass(frozen=True)
class ShiftSchedule:
    """Define the shift steps of every channel for any number of tokens.

    Ops accept a schedule instead of steps, so that the number of tokens may be unknown in advance.
    With a mask, every sample is shifted by the steps for its number of real tokens, as if it had no
    padding. A power schedule requires a known number of tokens, including padding. The schedule
    "grid" requires a known number and no mask.

    Args:
        name: A name from the table of `shift_steps`.
        channels: Number of channels that are shifted.
        layer_index: Index of the layer, from 0, for "power", "power_code" and "random".
        num_layers: Number of layers.
        group_size: Tokens per group, for the two schedules that depend on it.

    Raises:
        ValueError: for an unknown name, a size below 1, or a layer outside the model.

    Example:
        >>> import numpy as np
        >>> from keras_permix import ops
        >>> schedule = ops.ShiftSchedule("linear", channels=4)
        >>> schedule.at(8), schedule.at(4)
        ((0, 2, 4, 6), (0, 1, 2, 3))
        >>> tuple(ops.csp(np.ones((1, 8, 4), "float32"), schedule, 2).shape)
        (1, 8, 4)

    Reference: Yuan & Xu, "Channel-wise Sample Permutation", 2024, arXiv:2410.10914, section 3.2.2.
    """

    name: str
    channels: int
    layer_index: int = 0
    num_layers: int = 1
    group_size: int = 2
    _known: dict = field(default_factory=dict, init=False, repr=False, compare=False)
    _tables: dict = field(default_factory=dict, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        check_choice("schedule", self.name, SCHEDULES)
        for name in ("channels", "num_layers", "group_size"):
            object.__setattr__(self, name, check_integer(name, getattr(self, name)))
        layer_index = check_layer_index(self.layer_index, self.num_layers)
        object.__setattr__(self, "layer_index", layer_index)

    def at(self, tokens: int) -> tuple[int, ...]:
        """Return the steps for `tokens` tokens: a tuple of integers from 0 to `tokens` - 1.

        The result is cached here, because PyTorch's compiler warns about `functools.cache`.
        """
        steps = self._known.get(tokens)
        if steps is None:
            if len(self._known) >= REMEMBERED:
                self._known.clear()
            self._known[tokens] = steps = self.make(max(tokens, 1))
        return steps

    def steps_for(self, lengths: Tensor, tokens: int | None = None) -> Tensor | tuple[int, ...]:
        """Return the steps for numbers of tokens that are known only at run time.

        Args:
            lengths: An int32 tensor of numbers of tokens, a scalar or of shape (..., 1).
            tokens: Upper limit of `lengths`, required by power schedules.

        Returns:
            An int32 tensor of the shape of `lengths`, with channels instead of 1; or a tuple of
            Python integers if steps do not depend on the number of tokens. Only the steps of power
            schedules are taken modulo the number of tokens.

        Raises:
            ValueError: for the schedule "grid", or a power schedule without `tokens` or for too
                many.
        """
        rule = SCHEDULES[self.name]
        if self.name == "grid":
            raise ValueError(f"'grid' requires known tokens and no mask. Received: {tokens=}")
        if self.name in LINEAR:
            return rule(ops.arange(0, self.channels, dtype="int32"), lengths, self)
        if self.name not in POWERS:
            return tuple(rule(channel, None, self) for channel in range(self.channels))
        if tokens is None or tokens * self.channels > LARGEST_TABLE:
            most = LARGEST_TABLE // self.channels
            limit = f"requires a static number of tokens without a mask, or at most {most} tokens"
            raise ValueError(f"The schedule {self.name!r} {limit}. Received: {tokens=}, {self}")
        return ops.take(ops.convert_to_tensor(self._table(tokens)), lengths[..., 0], axis=0)

    def _table(self, tokens):
        """Return the steps for 0 to `tokens` tokens, `(tokens + 1, channels)`; cached."""
        table = self._tables.get(tokens)
        if table is None:
            steps = [self.make(max(length, 1)) for length in range(tokens + 1)]
            self._tables.clear()
            self._tables[tokens] = table = np.array(steps, "int32")
        return table

    @property
    def is_tabled(self) -> bool:
        """Return whether no rule computes the steps from a tensor of numbers of tokens."""
        return self.name in (*POWERS, "grid")

    def make(self, tokens: int) -> tuple[int, ...]:
        """Compute the steps for a number of tokens, without the cache."""
        rule = SCHEDULES[self.name]
        return tuple(rule(channel, tokens, self) % tokens for channel in range(self.channels))

    def get_config(self) -> dict[str, Any]:
        return {field.name: getattr(self, field.name) for field in fields(self) if field.init}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Self:
        return cls(**config)


def _stride(tokens, channels):
    return (tokens + channels - 1) // channels


def _power(channel, tokens, schedule):
    last = schedule.num_layers * schedule.channels - 1
    number = schedule.layer_index * schedule.channels + channel
    return round(tokens ** (number / last)) - 1 if last else 0


def _power_code(channel, tokens, schedule):
    number = schedule.layer_index * schedule.channels + channel
    return math.ceil(tokens ** (number / (schedule.num_layers * schedule.channels)))


def _random(channel, tokens, schedule):
    # `random.Random` returns the same numbers in all Python versions.
    return random.Random(schedule.layer_index * schedule.channels + channel).getrandbits(30)


def _grid(channel, tokens, schedule):
    side = math.isqrt(tokens)
    if side * side != tokens:
        raise ValueError(f"'grid' requires a square number of tokens. Received: {tokens=}")
    stride = 1  # PyTorch's compiler does not trace `min` with a key.
    for number in range(2, side):
        if math.gcd(number, side) == 1 and _from_golden(number, side) < _from_golden(stride, side):
            stride = number
    cycle, column = divmod(channel, side)
    return (cycle + column * stride) % side * side + column


def _from_golden(number, side):
    return abs(number - side / GOLDEN)


GOLDEN = (1 + 5**0.5) / 2
# The first two also accept tensors of channels and tokens.
SCHEDULES = {
    "linear": lambda c, tokens, schedule: c * _stride(tokens, schedule.channels),
    "linear_paper": lambda c, tokens, schedule: (c + 1) * _stride(tokens, schedule.channels),
    "linear_code": lambda c, tokens, schedule: c * schedule.group_size,
    "linear_head": lambda c, tokens, schedule: max(c - 1, 0) * schedule.group_size,
    "unit": lambda c, tokens, schedule: c,
    "power": _power,
    "power_code": _power_code,
    "grid": _grid,
    "random": _random,
    "zero": lambda c, tokens, schedule: 0,
}
LINEAR = ("linear", "linear_paper")
POWERS = ("power", "power_code")


Steps: TypeAlias = ShiftSchedule | Sequence[int] | np.ndarray


def shift_steps(
    schedule: Shift,
    tokens: int,
    channels: int,
    *,
    layer_index: int = 0,
    num_layers: int = 1,
    group_size: int = 2,
) -> np.ndarray:
    """Compute the circular shift step of every channel.

    | `schedule` | step of channel c |
    | --- | --- |
    | `"linear"` | `c * ceil(tokens / channels)` |
    | `"linear_paper"` | `(c + 1) * ceil(tokens / channels)`, as the paper prints it |
    | `"linear_code"` | `group_size * c`, the authors' earlier ViT |
    | `"linear_head"` | `group_size * max(c - 1, 0)`, the authors' newest ViT and MEGA |
    | `"unit"` | `c` |
    | `"power"` | `round(tokens ** (g / (M - 1))) - 1` |
    | `"power_code"` | `ceil(tokens ** (g / M))`, the authors' Path-X |
    | `"grid"` | `(c // s + c % s * r) % s * s + c % s` |
    | `"random"` | 30 random bits with the seed `g` |
    | `"zero"` | 0 |

    Here, `g = layer_index * channels + c` is the index of the channel in the whole model, which
    has `M = num_layers * channels` channels. `"grid"` moves each channel by rows and columns of a
    square of `s * s` tokens. `r` is the number coprime to `s` that is nearest to `s` divided by the
    golden ratio. Each block of `s` channels uses each row and each column once, and each block of
    `s * s` channels each move once. Steps are computed with Python numbers, modulo `tokens`.

    Args:
        schedule: A name from the table, or one integer per channel, of any sign and size.
        tokens: Number of tokens.
        channels: Number of channels that are shifted.
        layer_index: Index of the layer, from 0, for "power", "power_code" and "random".
        num_layers: Number of layers.
        group_size: Tokens per group, for the two schedules that depend on it.

    Returns:
        An int64 NumPy array of shape (channels,), with values in [0, tokens).

    Raises:
        ValueError: for an unknown name, a size below 1, a layer outside the model, a wrong number
            of integers, or "grid" with a non-square number of tokens.

    Example:
        >>> from keras_permix.ops import shift_steps
        >>> shift_steps("linear", tokens=8, channels=4).tolist()
        [0, 2, 4, 6]

    Reference: Yuan & Xu, "Channel-wise Sample Permutation", 2024, arXiv:2410.10914, section 3.2.2.
    The last three schedules extend the paper.
    """
    tokens = check_integer("tokens", tokens)
    options = {"layer_index": layer_index, "num_layers": num_layers, "group_size": group_size}
    if isinstance(schedule, str):
        return np.array(ShiftSchedule(schedule, channels, **options).at(tokens), "int64")
    ShiftSchedule("unit", channels, **options)  # checks the sizes
    steps: Any = check_steps(schedule, channels, "schedule")
    return np.array([step % tokens for step in steps], "int64")


def check_steps(
    steps: Steps, channels: int, name: str = "steps"
) -> ShiftSchedule | tuple[int, ...]:
    """Return `steps` as a `ShiftSchedule`, or as a tuple of Python integers, one per channel."""
    if isinstance(steps, ShiftSchedule):
        count = steps.channels
    else:
        try:
            steps = tuple(map(index, steps.tolist() if hasattr(steps, "tolist") else steps))
        except TypeError as error:
            rule = f"`{name}` must be integers, one per channel"
            raise TypeError(f"{rule}. Received: {steps!r}") from error
        count = len(steps)
    if count != channels:
        rule = f"`{name}` must have one step per channel"
        raise ValueError(f"{rule}. Received: {count=}, {channels=}")
    return steps
