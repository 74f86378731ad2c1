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


def masks_taken(layer: Layer, mask: Mask, attention_mask: Mask = None) -> dict[str, Any]:
    """Masks of tokens, and of what they attend to, by the names that a layer has for them.

    Keras' attention is given a key for each query, since PyTorch has too large a gradient of one
    that may attend to nothing: such a query attends to all. A layer that has no name for a mask of
    tokens is given none.
    """
    taken = signature(layer.call).parameters
    if isinstance(layer, QUERY_AND_VALUE) and "value_mask" in taken:
        return _keys_of_keras(mask, attention_mask)
    given = {"mask": mask} if mask is not None and "mask" in taken else {}
    return given if attention_mask is None else {**given, "attention_mask": attention_mask}


def _keys_of_keras(mask, attention_mask):
    if attention_mask is None:
        return {} if mask is None else {"value_mask": visible_keys(mask)}
    allowed = ops.cast(attention_mask, "bool")
    if mask is not None:  # of the keys alone, for all queries and heads
        axes = tuple(range(1, max(len(allowed.shape), 3) - 1))
        allowed = ops.logical_and(allowed, ops.expand_dims(ops.cast(mask, "bool"), axes))
    return {"attention_mask": visible_keys(allowed)}
