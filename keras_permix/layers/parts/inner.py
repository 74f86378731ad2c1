"""A layer that people give to one of ours, to be called on the tokens."""

from inspect import signature
from typing import Any

import keras

from keras_permix._typing import Layer, Mask

QUERY_AND_VALUE = (keras.layers.MultiHeadAttention, keras.layers.GroupQueryAttention)


def check_inner(argument: str, layer: Any) -> Layer:
    """The layer that was given as an argument of that name, itself or as its config.

    Raises:
        TypeError: for anything else, such as a name or a class of layers.
    """
    layer = keras.layers.deserialize(layer) if isinstance(layer, dict) else layer
    if not isinstance(layer, keras.layers.Layer):
        raise TypeError(
            f"`{argument}` must be a layer, such as `CSP()`. Received: {argument}={layer!r}"
        )
    return layer


def as_taken(layer: Layer, x: Any) -> tuple[Any, ...]:
    """The arguments of a layer for one tensor, or its shape: Keras' attention takes two."""
    return (x, x) if isinstance(layer, QUERY_AND_VALUE) else (x,)


def masks_taken(layer: Layer, mask: Mask) -> dict[str, Any]:
    """A mask of the tokens by the name that a layer has for it; nothing where it has none."""
    if mask is None:
        return {}
    taken = signature(layer.call).parameters
    return {name: mask for name in ("mask", "value_mask") if name in taken}
