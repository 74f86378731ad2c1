"""Compute the shift steps of Channel-wise Sample Permutation."""

from collections.abc import Sequence
from operator import index
from typing import TypeAlias

import numpy as np

from keras_permix.ops.shift_schedule import ShiftSchedule
from keras_permix.utils.checks import check_integer

Steps: TypeAlias = ShiftSchedule | Sequence[int] | np.ndarray
Shift: TypeAlias = str | Sequence[int] | np.ndarray


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

    Here, `g = layer_index * channels + c` is the index of the channel in the whole model, which
    has `M = num_layers * channels` channels. All steps are computed in Python's integers and
    doubles, modulo `tokens`.

    Args:
        schedule: A name from the table, or one integer per channel, of any sign and size.
        tokens: Number of tokens.
        channels: Number of channels that are shifted.
        layer_index: Index of the layer, from 0; only the power schedules depend on it.
        num_layers: Number of layers.
        group_size: Tokens per group, for the two schedules that depend on it.

    Returns:
        An int64 NumPy array of shape (channels,), with values in [0, tokens).

    Raises:
        ValueError: for an unknown name, a size below 1, a layer outside the model, or a wrong
            number of integers.

    Example:

    >>> from keras_permix.ops import shift_steps
    >>> shift_steps("linear", tokens=8, channels=4).tolist()
    [0, 2, 4, 6]

    Reference:
        Yuan and Xu, "Towards Better Multi-head Attention via Channel-wise Sample Permutation",
        2024, arXiv:2410.10914, section 3.2.2.
    """
    tokens = check_integer("tokens", tokens)
    options = {"layer_index": layer_index, "num_layers": num_layers, "group_size": group_size}
    if isinstance(schedule, str):
        return np.array(ShiftSchedule(schedule, channels, **options).at(tokens), "int64")
    ShiftSchedule("unit", channels, **options)  # which checks the sizes
    steps = _integers("schedule", schedule, channels)
    return np.array([step % tokens for step in steps], "int64")


def check_steps(
    steps: Steps, channels: int, name: str = "steps"
) -> ShiftSchedule | tuple[int, ...]:
    """Return `steps` as a `ShiftSchedule`, or as a tuple of Python integers, one per channel."""
    if not isinstance(steps, ShiftSchedule):
        return _integers(name, steps, channels)
    if steps.channels != channels:
        raise ValueError(
            "`steps` must be a schedule for the channels that `x` has. "
            f"Received: steps={steps}, channels={channels}"
        )
    return steps


def _integers(name, steps, channels):
    steps = steps.tolist() if hasattr(steps, "tolist") else steps
    try:
        steps = tuple(index(step) for step in steps)
    except TypeError:
        raise TypeError(
            f"`{name}` must be integers known in advance, one per channel. "
            f"Received: {name}={steps!r}"
        ) from None
    if len(steps) != channels:
        raise ValueError(
            f"`{name}` must hold one integer per channel. "
            f"Received: len({name})={len(steps)}, channels={channels}"
        )
    return steps
