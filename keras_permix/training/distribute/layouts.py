"""Select the axis of a weight to divide among devices."""

import re
import warnings
from collections.abc import Sequence
from math import prod

from keras_permix._typing import Model

# End of a weight's path -> axis. Layers that widen a token compute a part of its channels on each
# device; layers that narrow it sum over the devices.
RULES = (
    (r"(mlp_out\w*|token_out|channel_out|mixer/output|attention/output|hidden)/kernel", -2),
    (r"(mlp_in\w*|token_in|channel_in|qkv|query|key|value|gate)/(kernel|bias)", -1),
    (r"(patch_embedding/projection|pooler|head_hidden_\d+|classifier|head)/(kernel|bias)", -1),
    (r"(embeddings|\w*table)", -1),
)


def divided_axis(path: str, shape: Sequence[int], devices: int) -> int | None:
    """Return the axis of a weight that is divided among devices.

    Args:
        path: Path of the weight in its model.
        shape: Shape of the weight.
        devices: Number of devices.

    Returns:
        The axis, from 0; `None` for a weight that each device holds completely, such as those of
        normalization, biases after a sum, and axes that `devices` does not divide.

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
    """Check that weights of a model are divided, and warn if less than half are.

    Args:
        model: A `ZooModel`.
        devices: Number of devices.

    Raises:
        ValueError: if no weight is divided.
    """
    weights = model.weights
    sizes = [prod(weight.shape) for weight in weights]
    whole = [divided_axis(weight.path, weight.shape, devices) is None for weight in weights]
    share = 1 - sum(size for size, kept in zip(sizes, whole, strict=True) if kept) / sum(sizes)
    if all(whole):
        raise ValueError(
            "`distribute='model'` requires weights with axes that the number of devices divides. "
            f"Received: a {type(model).__name__} with none on {devices} devices"
        )
    if share < 0.5:
        warnings.warn(
            f"`distribute='model'` divides {share:.0%} of the parameters of this "
            f"{type(model).__name__}; each of the {devices} devices holds all others.",
            stacklevel=2,
        )
