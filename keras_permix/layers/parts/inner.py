"""A layer that people give to one of ours, to be called on the tokens."""

from inspect import signature
from typing import Any

import keras
from keras import ops

from keras_permix._typing import Layer, Mask
from keras_permix.layers.parts.masks import visible_keys

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
    """The arguments of a layer for one tensor, or its shape: Keras' attention takes two.

    It is given no mask that Keras has put onto the tensor, by which its padding attends to nothing.
    """
    if not isinstance(layer, QUERY_AND_VALUE):
        return (x,)
    if getattr(x, "_keras_mask", None) is not None:
        x = ops.copy(x)
    return (x, x)


def masks_taken(layer: Layer, mask: Mask) -> dict[str, Any]:
    """A mask of the tokens by the name that a layer has for it; nothing where it has none.

    Keras' attention is given a key for each query, since PyTorch has too large a gradient of one
    that may attend to nothing: where no token is real, it attends to all.
    """
    if mask is None:
        return {}
    if isinstance(layer, QUERY_AND_VALUE):
        return {"value_mask": visible_keys(mask)}
    return {"mask": mask} if "mask" in signature(layer.call).parameters else {}
