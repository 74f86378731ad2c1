"""Which axis of a weight is divided among devices, for all families of the zoo."""

import re
import warnings
from collections.abc import Sequence
from math import prod

from keras_permix._typing import Model

# What the path of a weight ends with -> the axis that is divided. What widens a token makes part of
# its channels on each device; what narrows it again sums over them.
RULES = (
    (r"(mlp_out\w*|token_out|channel_out|mixer/output|attention/output|hidden)/kernel", -2),
    (r"(mlp_in\w*|token_in|channel_in|qkv|query|key|value|gate)/(kernel|bias)", -1),
    (r"(patch_embedding/projection|pooler|head_hidden_\d+|classifier|head)/(kernel|bias)", -1),
    (r"(embeddings|\w*table)", -1),
)


def divided_axis(path: str, shape: Sequence[int], devices: int) -> int | None:
    """The axis of a weight that is divided among devices.

    Args:
        path: The weight's path in its model.
        shape: Its shape.
        devices: How many there are.

    Returns:
        The axis, from 0; `None` for a weight that each device has whole: a norm, an offset of what
        was summed, or one whose axis does not divide.

    Example:

    >>> from keras_permix.training.distribute.layouts import divided_axis
    >>> divided_axis("block_0/mlp_in/kernel", (128, 512), 8)
    1
    >>> divided_axis("block_0/mlp_out/kernel", (512, 128), 8)
    0
    >>> divided_axis("head/kernel", (128, 10), 8) is None
    True
    """
    for pattern, axis in RULES:
        if re.search(rf"(^|/){pattern}$", path):
            axis += len(shape)
            return axis if shape[axis] % devices == 0 else None
    return None


def check_divides(model: Model, devices: int) -> None:
    """Raise if no weight of a model is divided among devices, and warn if most are not.

    Raises:
        ValueError: where each device would hold all of the model and do all of its work.
    """
    weights = model.weights
    sizes = [prod(weight.shape) for weight in weights]
    whole = [divided_axis(weight.path, weight.shape, devices) is None for weight in weights]
    share = 1 - sum(size for size, kept in zip(sizes, whole, strict=True) if kept) / sum(sizes)
    if all(whole):
        raise ValueError(
            "`distribute='model'` needs weights whose axes the number of devices divides. "
            f"Received: a {type(model).__name__} with none on {devices} devices"
        )
    if share < 0.5:
        warnings.warn(
            f"`distribute='model'` divides {share:.0%} of the weights of this "
            f"{type(model).__name__}; each of the {devices} devices holds the others whole.",
            stacklevel=2,
        )
