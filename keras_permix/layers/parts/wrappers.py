"""Base classes of layers that contain or mix, and calls of layers that users pass in."""

import inspect
import re
from inspect import signature
from typing import Any, Self

import keras
import numpy as np
from keras import ops
from keras.dtype_policies import DTypePolicyMap

from keras_permix._typing import Layer, Mask, Tensor
from keras_permix.layers.parts.masks import tokens_shape, visible_keys
from keras_permix.utils.checks import check_flags, check_names

KERAS_ARGUMENTS = {"input_dim", "input_shape"}  # accepted by Keras layers, in no signature


def policy_of(layer: Any) -> Any:
    """The dtype policy of a layer; with quantized parts, a map from their paths to theirs."""
    quantized = [part for part in layer._flatten_layers() if part.quantization_mode]
    if not quantized:
        return layer.dtype_policy
    default = getattr(layer.dtype_policy, "default_policy", layer.dtype_policy)
    policies = DTypePolicyMap(default_policy=default)
    for part in quantized:
        policies[_key(layer, part)] = policy_at(part.dtype_policy, part.path)
    return policies


def _key(layer, part):
    """The path of a part; of a part of a layer a pattern, which knows it in whatever model."""
    if isinstance(layer, keras.Model):
        return part.path
    below = part.path.removeprefix(layer.path) if layer.path else f"/{part.path}"
    return f"(.*/)?{re.escape(layer.name + below)}"


def policy_at(policy: Any, path: str | None) -> Any:
    """The policy that a map has for the layer at a path, once it has one; another as it is.

    Keras asks a layer's policy for the mode of its weights when it saves them, and a map has none.
    """
    return policy[path] if path and isinstance(policy, DTypePolicyMap) else policy


def parameters_of(layer: type[Any]) -> dict[str, inspect.Parameter]:
    """The arguments that a class of layers takes, with those that it hands on to its bases."""
    own: list[Any] = [c for c in reversed(layer.__mro__) if issubclass(c, keras.layers.Layer)]
    items = [item for cls in own for item in inspect.signature(cls.__init__).parameters.items()]
    return {name: each for name, each in items if name not in ("self", "args", "kwargs")}


def part_arguments(layer: type[Any]) -> set[str]:
    """Those of them that a layer around it leaves to others when it makes one of that class."""
    return parameters_of(layer).keys() - {"dtype", "name"}


class Composite(keras.layers.Layer):
    """A layer of others, which keeps the shape of its input unless a subclass says otherwise.

    A subclass stores its arguments under their names. The configuration holds them, and says which
    layers inside are quantized. So a model that it is cut out for can be saved, loaded and cloned
    as it is, while the layer keeps its name. A layer that is frozen before it is built, as in a
    file, freezes the layers that it makes then.

    Raises:
        ValueError: for an unknown argument, naming the nearest one, or for a value other than True
            or False of a boolean argument.
    """

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        check_flags(kwargs, parameters_of(cls))
        return super().__new__(cls, *args, **kwargs)

    def __init__(self, **kwargs: Any) -> None:
        cls = type(self)
        check_names(cls.__name__, kwargs.keys() - KERAS_ARGUMENTS, parameters_of(cls))
        super().__init__(**kwargs)

    def _post_build(self):
        super()._post_build()
        if not self.trainable:
            for part in self._flatten_layers(include_self=False):
                part.trainable = False

    def compute_output_shape(self, input_shape: Any) -> Any:
        return tuple(input_shape)

    def get_config(self) -> dict[str, Any]:
        own = [name for name in parameters_of(type(self)) if name not in parameters_of(Composite)]
        stored = {name: _plain(getattr(self, name)) for name in own if hasattr(self, name)}
        policy = keras.dtype_policies.serialize(policy_of(self))
        return {**super().get_config(), **stored, "dtype": policy}


def _plain(argument):
    """An argument as its config: of a layer, or of an activation."""
    if isinstance(argument, keras.layers.Layer):
        return serialize_unbuilt(argument)
    return keras.activations.serialize(argument) if callable(argument) else argument


def serialize_unbuilt(layer):
    """The config of a layer that the layer around it builds."""
    config = keras.layers.serialize(layer)
    config.pop("build_config", None)
    return config


class MixingLayer(Composite):
    """Base of the layers that mix the tokens of one tensor, called as `MultiHeadAttention` is.

    It stands where `MultiHeadAttention` attends to its own query: `value` and `key` may be given,
    and must be the query itself. A subclass whose `call` has an argument `attention_mask` or
    `use_causal_mask` supports it.
    """

    @property
    def is_causal(self) -> bool:
        """Whether no output token depends on a later input token."""
        return False

    def __call__(
        self,
        query: Tensor,
        value: Tensor = None,
        key: Tensor = None,
        attention_mask: Mask = None,
        use_causal_mask: bool = False,
        mask: Mask = None,
        **kwargs: Any,
    ) -> Tensor:
        # Keras converts arguments one by one, so `call` could not tell whether two were the same.
        for name, given in (("value", value), ("key", key)):
            if given is not None and given is not query:
                raise TypeError(
                    f"{type(self).__name__} mixes the tokens of one tensor: `{name}` must be the "
                    "same object as `query`, or None. Pass masks by name. "
                    f"Received: {name}={_describe(given)}"
                )
        if mask is not None:
            self._check_mask(mask, query.shape)
            kwargs["mask"] = mask
        if attention_mask is not None:
            self._check_attention_mask(attention_mask, query.shape)
            kwargs["attention_mask"] = attention_mask
        if use_causal_mask and not self.is_causal:
            if "use_causal_mask" not in signature(self.call).parameters:
                raise TypeError(
                    f"{type(self).__name__} is not causal, so `use_causal_mask` must be False. "
                    "Use `CausalCSP`, `SimpleAttention(causal=True)`, `SoftmaxAttention` or "
                    "`DampedEMA`. Received: use_causal_mask=True"
                )
            kwargs["use_causal_mask"] = True
        return super().__call__(query, **kwargs)

    # Checked before Keras calls `call`, since Keras rewrites what `call` raises.
    def _check_mask(self, mask, shape):
        found = shape_of(mask)
        batch, tokens, _ = tokens_shape(type(self).__name__, shape)
        if not (fits(found, (batch, tokens)) or fits(found, tuple(shape[:-1]))):
            raise ValueError(
                "`mask` must have the shape (batch, tokens) of the input, or that of its map. "
                f"Received: mask.shape={found}, inputs.shape={tuple(shape)}"
            )

    def _check_attention_mask(self, mask, shape):
        raise TypeError(
            f"{type(self).__name__} does not support `attention_mask`, since it computes no "
            "attention map. Use `mask` (batch, tokens) to mask padding. "
            f"Received: attention_mask={_describe(mask)}"
        )


def shape_of(mask):
    """The shape of a mask, which may be a list."""
    return tuple(mask.shape if hasattr(mask, "shape") else np.shape(mask))


def fits(found, expected):
    """Whether a mask is as large as expected, or one for all samples; None is an unknown size."""
    pairs = list(zip(found, expected, strict=False))
    if found[:1] == (1,):
        del pairs[0]
    return len(found) == len(expected) and all(a == b for a, b in pairs if None not in (a, b))


def broadcasts(found, expected):
    """Whether a mask, 1 on any axis, stands for one that is as large; None is an unknown size."""
    pairs = zip(found, expected, strict=False)
    return len(found) == len(expected) and all(a in (1, None, b) or b is None for a, b in pairs)


def _describe(given):
    return f"a tensor of shape {tuple(given.shape)}" if hasattr(given, "shape") else repr(given)


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


def input_arguments(layer: Layer, x: Any) -> tuple[Any, ...]:
    """The arguments of a layer for one tensor, or its shape: Keras' attention takes two.

    It is given no mask that Keras has put onto the tensor, by which its padding attends to nothing.
    """
    if not isinstance(layer, QUERY_AND_VALUE):
        return (x,)
    if getattr(x, "_keras_mask", None) is not None:
        x = ops.copy(x)
    return (x, x)


def mask_arguments(layer: Layer, mask: Mask, attention_mask: Mask = None) -> dict[str, Any]:
    """Masks of tokens, and of what they attend to, by the names that a layer has for them.

    Keras' attention is given a key for each query, since PyTorch has too large a gradient of one
    that may attend to nothing: such a query attends to all. A layer that has no name for a mask of
    tokens is given none.
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
    if mask is not None:  # of the keys alone, for all queries and heads
        axes = tuple(range(1, max(len(allowed.shape), 3) - 1))
        allowed = ops.logical_and(allowed, ops.expand_dims(ops.cast(mask, "bool"), axes))
    return {"attention_mask": visible_keys(allowed)}
