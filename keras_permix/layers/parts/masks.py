"""Combine masks of tokens and of the keys that they attend to."""

from inspect import signature
from typing import Any

from keras import ops

from keras_permix._typing import Layer, Mask
from keras_permix.layers.parts.wrappers import QUERY_AND_VALUE


def visible_keys(allowed, among=None):
    """Return the keys that queries attend to: the allowed ones, or all if no key is allowed.

    A query without allowed keys attends as if nothing were masked, so that its outputs and
    gradients are finite and the same on all backends. `allowed` are booleans `(…, keys)`. `among`
    is True at the keys of a query without a mask, such as earlier keys, or `None` for all keys.
    """
    blind = ops.logical_not(ops.any(allowed, axis=-1, keepdims=True))
    return ops.logical_or(allowed, blind if among is None else ops.logical_and(blind, among))


def clean_padding(x, mask):
    """Replace padding that is NaN, infinite or above 1000 by zeros.

    These values would reach real tokens and gradients: 0 times NaN is NaN. Other padding is kept.
    """
    if mask is None:
        return x
    keep = ops.logical_or(ops.cast(mask, "bool")[..., None], ops.abs(x) < 1000)
    return ops.where(keep, x, ops.zeros_like(x))


def with_first(mask):
    """Prepend True, for the class token, to a mask of tokens `(batch, tokens)`.

    Avoids slices, which JAX 0.8 cannot rematerialize in the graph of a Keras model.
    """
    return ops.concatenate([ops.ones_like(ops.any(mask, axis=1, keepdims=True)), mask], axis=1)


def masked_softmax(scores, allowed=None):
    """Return the softmax of scores over `visible_keys(allowed)`, which broadcasts to them."""
    if allowed is not None:
        nothing = ops.cast(-float("inf"), scores.dtype)
        scores = ops.where(visible_keys(allowed), scores, nothing)
    return ops.softmax(scores)


def mask_arguments(layer: Layer, mask: Mask, attention_mask: Mask = None) -> dict[str, Any]:
    """Return masks of tokens and of attention as the arguments that a layer takes.

    In Keras' attention, queries without allowed keys attend to all keys, because PyTorch otherwise
    computes gradients that are too large. A `mask` is omitted for layers that do not take one.
    """
    parameters = signature(layer.call).parameters
    if isinstance(layer, QUERY_AND_VALUE) and "value_mask" in parameters:
        return _keys_of_keras(mask, attention_mask)
    given = {"mask": mask} if mask is not None and "mask" in parameters else {}
    return given if attention_mask is None else {**given, "attention_mask": attention_mask}


def _keys_of_keras(mask, attention_mask):
    if attention_mask is None:
        return {} if mask is None else {"value_mask": visible_keys(mask)}
    allowed = ops.cast(attention_mask, "bool")
    if mask is not None:  # masks keys, for all queries and heads
        axes = tuple(range(1, max(len(allowed.shape), 3) - 1))
        allowed = ops.logical_and(allowed, ops.expand_dims(ops.cast(mask, "bool"), axes))
    return {"attention_mask": visible_keys(allowed)}
