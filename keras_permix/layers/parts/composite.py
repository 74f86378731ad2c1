"""Layers of other layers, which keep of these what Keras forgets."""

import inspect
import re
from typing import Any, Self

import keras
from keras.dtype_policies import DTypePolicyMap

from keras_permix.utils.checks import check_flags, check_names

UNSIGNED = {"input_dim", "input_shape"}  # arguments of Keras' layers that no signature shows


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
    found = dict(item for cls in own for item in inspect.signature(cls.__init__).parameters.items())
    return {name: found[name] for name in found.keys() - {"self", "args", "kwargs"}}


def part_arguments(layer: type[Any]) -> set[str]:
    """Those of them that a layer around it leaves to others when it makes one of that class."""
    return parameters_of(layer).keys() - {"dtype", "name"}


class Composite(keras.layers.Layer):
    """A layer of others, whose configuration says which of them are quantized.

    So a model that it is cut out for can be saved, loaded and cloned as it is, while the layer
    keeps its name. A layer that is frozen before it is built, as in a file, freezes the layers that
    it makes then.

    Raises:
        ValueError: for arguments that the layer does not take, with the nearest that it does; or
            for another value than True or False of a keyword that is one of these by itself.
    """

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        check_flags(kwargs, parameters_of(cls))
        return super().__new__(cls, *args, **kwargs)

    def __init__(self, **kwargs: Any) -> None:
        cls = type(self)
        check_names(cls.__name__, kwargs.keys() - UNSIGNED, parameters_of(cls))
        super().__init__(**kwargs)

    def _post_build(self):
        super()._post_build()
        if not self.trainable:
            for part in self._flatten_layers(include_self=False):
                part.trainable = False

    def get_config(self) -> dict[str, Any]:
        policy = keras.dtype_policies.serialize(policy_of(self))
        return {**super().get_config(), "dtype": policy}
