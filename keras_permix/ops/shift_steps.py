"""How far each channel is shifted: the schedules of Channel-wise Sample Permutation."""

import math
from operator import index
from typing import NamedTuple

import numpy as np


def shift_steps(schedule, tokens, channels, *, layer=0, layers=1, group_size=2):
    """Make the circular shift step of every channel.

    | `schedule` | step of channel c |
    | --- | --- |
    | `"linear"` | `c * ceil(tokens / channels)` |
    | `"linear_paper"` | `(c + 1) * ceil(tokens / channels)`, as the paper prints it |
    | `"linear_code"` | `group_size * c`, the authors' earlier ViT |
    | `"linear_head"` | `group_size * max(c - 1, 0)`, the authors' newest ViT and MEGA |
    | `"unit"` | `c` |
    | `"power"` | `round(tokens ** (g / (M - 1))) - 1` |
    | `"power_code"` | `ceil(tokens ** (g / M))`, the authors' Path-X |

    where `g = layer * channels + c` counts the `M = layers * channels` channels of a model.
    All steps are taken modulo `tokens`, and computed in Python's integers and doubles.

    Args:
        schedule: a name from the table, or one integer a channel, of any sign and size.
        tokens: number of tokens.
        channels: number of channels that are shifted.
        layer: index of the layer, from 0; only the power laws depend on it.
        layers: number of layers.
        group_size: tokens a group, for the two schedules that depend on it.

    Returns:
        An int64 NumPy array of shape (channels,), with values in [0, tokens).

    Raises:
        ValueError: for an unknown name, a size below 1, a layer outside the model, or a wrong
            number of integers.

    Example:

        >>> shift_steps("linear", tokens=8, channels=4).tolist()
        [0, 2, 4, 6]

    Source: Yuan and Xu, "Channel-wise Sample Permutation", 2024, section 3.2.2.
    """
    sizes = {"tokens": tokens, "channels": channels, "layers": layers, "group_size": group_size}
    for name, size in sizes.items():
        if index(size) < 1:
            raise ValueError(f"`{name}` must be at least 1. Received: {name}={size}")
    if not 0 <= layer < layers:
        raise ValueError(
            f"`layer` must count from 0 to `layers` - 1. Received: layer={layer}, layers={layers}"
        )
    if not isinstance(schedule, str):
        return _explicit_steps(schedule, tokens, channels)
    if schedule not in SCHEDULES:
        raise ValueError(
            f"`schedule` must be one of {tuple(SCHEDULES)} or one integer a channel. "
            f"Received: schedule={schedule!r}"
        )
    rule = SCHEDULES[schedule]
    sizes = _Sizes(tokens, channels, layer, layers, group_size)
    return np.array([rule(c, sizes) % tokens for c in range(channels)], dtype="int64")


class _Sizes(NamedTuple):
    tokens: int
    channels: int
    layer: int
    layers: int
    group_size: int


def _stride(sizes):
    return -(-sizes.tokens // sizes.channels)


def _power(channel, sizes):
    last = sizes.layers * sizes.channels - 1
    place = sizes.layer * sizes.channels + channel
    return round(sizes.tokens ** (place / last)) - 1 if last else 0


def _power_code(channel, sizes):
    place = sizes.layer * sizes.channels + channel
    return math.ceil(sizes.tokens ** (place / (sizes.layers * sizes.channels)))


SCHEDULES = {
    "linear": lambda c, sizes: c * _stride(sizes),
    "linear_paper": lambda c, sizes: (c + 1) * _stride(sizes),
    "linear_code": lambda c, sizes: c * sizes.group_size,
    "linear_head": lambda c, sizes: max(c - 1, 0) * sizes.group_size,
    "unit": lambda c, sizes: c,
    "power": _power,
    "power_code": _power_code,
}


def _explicit_steps(steps, tokens, channels):
    steps = np.asarray(steps)
    if steps.shape != (channels,) or steps.dtype.kind not in "iu":
        raise ValueError(
            "An explicit `schedule` must hold one integer a channel. "
            f"Received: shape {steps.shape}, dtype {steps.dtype}, channels={channels}"
        )
    return np.mod(steps.astype("int64"), tokens)
