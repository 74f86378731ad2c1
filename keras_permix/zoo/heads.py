"""From tokens to logits: what models have at their end."""

from numbers import Real
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_permix.layers.mixers import is_causal
from keras_permix.layers.parts.masks import visible_keys
from keras_permix.layers.parts.projections import FirstToken
from keras_permix.utils.checks import check_floats


def pool_tokens(tokens: Any, pooling: str, mask: Any = None) -> Any:
    """Make one vector of the tokens of every sample.

    Args:
        tokens: `(batch, tokens, channels)`.
        pooling: "cls", the first token; "mean" or "max", over the real tokens.
        mask: Booleans `(batch, tokens)`, True at real tokens, or `None`. Of a sample without real
            tokens all count.

    Returns:
        A tensor `(batch, channels)`.
    """
    if pooling == "cls":
        return FirstToken(dtype=tokens.dtype, name="first_token")(tokens)
    if mask is None:
        return ops.mean(tokens, axis=1) if pooling == "mean" else ops.max(tokens, axis=1)
    real = ops.expand_dims(visible_keys(mask), axis=-1)
    if pooling == "max":
        return ops.max(ops.where(real, tokens, ops.cast(-float("inf"), tokens.dtype)), axis=1)
    count = ops.sum(ops.cast(real, "float32"), axis=1, keepdims=True)
    return ops.sum(tokens * ops.cast(ops.cast(real, "float32") / count, tokens.dtype), axis=1)


def check_class_token(pooling: str, mixers: Any) -> None:
    """Refuse to read out a class token, which stands first, where no mixer hears later tokens.

    Args:
        pooling: As in `pool_tokens`.
        mixers: What `check_mixers` returned.

    Raises:
        ValueError: for "cls" with mixers that are all causal.
    """
    specs = mixers if isinstance(mixers, list) else [mixers]
    if pooling == "cls" and all(map(is_causal, specs)):
        raise ValueError(
            "A class token stands ahead of all others, and hears none of them through causal "
            f'mixers: choose another `pooling`. Received: pooling="cls", mixer={mixers}'
        )


def logits_of(x: Any, num_classes: int, dtype: Any) -> Any:
    """Logits in float32, by a dense layer named "head"."""
    logits = keras.layers.Dense(num_classes, dtype=dtype, name="head")(x)
    return keras.layers.Activation("linear", dtype="float32", name="logits")(logits)


def check_scale(scale: dict[str, Any], targets: int) -> dict[str, Any]:
    """Check the mean and the standard deviation of targets, in this order.

    Args:
        scale: Dict of the two arguments. Each is one number, or one per target.
        targets: Number of targets.

    Returns:
        The dict with floats, or lists of them.

    Raises:
        ValueError: for another number of values, or a standard deviation that is not positive.
    """
    checked: dict[str, Any] = {}
    for name, value in scale.items():
        one = isinstance(value, Real)
        floats = check_floats(name, [value] if one else value, 1 if one else targets, "target")
        checked[name] = floats[0] if one else floats
    _, std = checked.items()
    if np.min(std[1]) <= 0:
        raise ValueError(f"`{std[0]}` must be positive. Received: {std[0]}={std[1]}")
    return checked
