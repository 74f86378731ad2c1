"""Base class of layers that contain layers, the layers that they contain, and their shapes."""

import inspect
import re
from math import prod
from typing import Any, Self

import keras
from keras import ops
from keras.dtype_policies import DTypePolicyMap

from keras_permix._typing import Layer
from keras_permix.ops import dense
from keras_permix.ops.backend import running
from keras_permix.utils.checks import check_flags, check_names

KERAS_ARGUMENTS = {"input_dim", "input_shape"}  # accepted by Keras layers, in no signature


def policy_of(layer: Any) -> Any:
    """Return the dtype policy of a layer, a map from paths if it has quantized parts."""
    quantized = [part for part in layer._flatten_layers() if part.quantization_mode]
    if not quantized:
        return layer.dtype_policy
    default = getattr(layer.dtype_policy, "default_policy", layer.dtype_policy)
    policies = DTypePolicyMap(default_policy=default)
    for part in quantized:
        policies[_key(layer, part)] = policy_at(part.dtype_policy, part.path)
    return policies


def _key(layer, part):
    """Return the path of a part of a model, or a pattern for a part of a layer in any model."""
    if isinstance(layer, keras.Model):
        return part.path
    below = part.path.removeprefix(layer.path) if layer.path else f"/{part.path}"
    return f"(.*/)?{re.escape(layer.name + below)}"


def policy_at(policy: Any, path: str | None) -> Any:
    """Return the policy of a map for the layer at a path, or the policy itself.

    Keras asks a layer's policy for the mode of its weights when it saves them, and a map has none.
    """
    return policy[path] if path and isinstance(policy, DTypePolicyMap) else policy


def parameters_of(layer: type[Any]) -> dict[str, inspect.Parameter]:
    """Return the arguments of a class of layers, including those of its bases."""
    own: list[Any] = [c for c in reversed(layer.__mro__) if issubclass(c, keras.layers.Layer)]
    items = [item for cls in own for item in inspect.signature(cls.__init__).parameters.items()]
    return {name: each for name, each in items if name not in ("self", "args", "kwargs")}


def part_arguments(layer: type[Any]) -> set[str]:
    """Return the arguments that another layer may pass on when it makes one of that class."""
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
    """Return the config of a layer that another layer builds."""
    config = keras.layers.serialize(layer)
    config.pop("build_config", None)
    return config


def assign_copy(variable, value):
    """Assign a copy of a value to a variable, in its dtype.

    On JAX two variables would hold one array otherwise, which the first step of either deletes.

    Args:
        variable: A Keras variable.
        value: A tensor or another variable, of the same shape.
    """
    variable.assign(ops.copy(ops.cast(value, variable.dtype)))


@keras.saving.register_keras_serializable("keras_permix")
class Dense(keras.layers.Dense):
    """Multiply like `keras.layers.Dense`, by `keras_permix.ops.dense`.

    Quantization and LoRA are Keras' own.
    """

    def build(self, input_shape):
        self._dtype_policy = policy_at(self._dtype_policy, self.path)
        super().build(input_shape)

    def call(self, inputs, training=None):
        kernel = ops.convert_to_tensor(self.kernel)
        bias = None if self.bias is None else ops.convert_to_tensor(self.bias)
        outputs = dense(inputs, kernel, bias)
        return outputs if self.activation is None else self.activation(outputs)

    def quantize(self, mode=None, type_check=True, **kwargs):
        # Keras refuses subclasses, which might compute something else.
        return super().quantize(mode, type_check=False, **kwargs)


@keras.saving.register_keras_serializable("keras_permix")
class Embedding(keras.layers.Embedding):
    """Look up vectors like `keras.layers.Embedding`, with dense gradients on TensorFlow too.

    There Keras' own is a row for each token, and Keras' optimizers square the rows before they add
    up those of one token: Adam and clipping by norms would do something else than elsewhere.
    Quantization and LoRA are Keras' own.
    """

    def call(self, inputs):
        table = running.with_dense_gradient(ops.convert_to_tensor(self.embeddings))
        outputs = ops.take(table, ops.cast(inputs, "int32"), axis=0)
        return ops.cast(outputs, self.compute_dtype)

    def quantize(self, mode=None, type_check=True, **kwargs):
        # Keras refuses subclasses, which might compute something else.
        return super().quantize(mode, type_check=False, **kwargs)


def make_dropout(rate, **kwargs):
    """Make a `Dropout` layer, or `Identity` for a rate of zero.

    `Dropout` reads its argument `training` as a Python boolean even at rate zero, which Keras'
    rematerialization of every layer cannot give it on JAX.
    """
    if rate:
        return keras.layers.Dropout(rate, **kwargs)
    return keras.layers.Identity(**kwargs)


@keras.saving.register_keras_serializable("keras_permix")
class FirstToken(keras.layers.Layer):
    """Return the first tokens `(batch, channels)` of `(batch, tokens, channels)`.

    A slice in the graph of a Keras model would do, but that JAX 0.8 cannot rematerialize one.
    """

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.supports_masking = True

    def call(self, tokens):
        return tokens[:, 0]

    def compute_mask(self, tokens, previous_mask=None):
        return None

    def compute_output_spec(self, tokens):
        return keras.KerasTensor((tokens.shape[0], tokens.shape[2]), self.compute_dtype)


def check_tokens(layer, shape):
    """Return `shape` if it is (batch, tokens, channels) with known channels."""
    if len(shape) != 3 or shape[-1] is None:
        raise ValueError(
            f"{layer} takes tokens of shape (batch, tokens, channels) with known channels. "
            f"Received: input_shape={tuple(shape)}"
        )
    return tuple(shape)


def tokens_shape(layer, shape):
    """Return the shape (batch, tokens, channels) of tokens or a map; unknown sizes are None.

    Raises:
        ValueError: for another number of axes, or unknown channels.
    """
    if len(shape) not in (3, 4) or shape[-1] is None:
        raise ValueError(
            f"{layer} takes tokens of shape (batch, tokens, channels), or maps of shape "
            "(batch, rows, columns, channels), with known channels. "
            f"Received: input_shape={tuple(shape)}"
        )
    sides = shape[1:-1]
    return (shape[0], None if None in sides else prod(sides), shape[-1])


def check_blocks(block_size, input_shape, axis=-1):
    """Check that blocks fill an axis of the input, whose size may be unknown unless it is last."""
    size = input_shape[axis]
    if size is None and input_shape[axis:][1:]:
        return
    if not size or size % block_size:
        raise ValueError(
            f"`block_size` must divide the size of axis {axis} of the input, 1 or more. "
            f"Received: block_size={block_size}, input_shape={tuple(input_shape)}"
        )


def broadcast_mask(mask, inputs):
    """Repeat a mask of one sample for every sample; other masks stay as they are."""
    if mask is None:
        return None
    mask = ops.convert_to_tensor(mask)
    if mask.shape[0] != 1:
        return mask
    return ops.broadcast_to(mask, (ops.shape(inputs)[0], *ops.shape(mask)[1:]))


def flatten_map(inputs, mask=None):
    """Flatten a map and its mask to tokens in rows; tokens stay as they are."""
    mask = broadcast_mask(mask, inputs)
    if len(inputs.shape) == 3:
        return inputs, mask
    batch, rows, columns, channels = ops.shape(inputs)
    tokens = rows * columns if isinstance(rows, int) and isinstance(columns, int) else -1
    mask = mask if mask is None else ops.reshape(mask, (batch, tokens))
    return ops.reshape(inputs, (batch, tokens, channels)), mask


def unflatten_map(tokens, inputs):
    """Return tokens in the shape of `inputs` before `flatten_map`, with their own channels."""
    if len(inputs.shape) == 3:
        return tokens
    return ops.reshape(tokens, (*ops.shape(inputs)[:3], tokens.shape[-1]))


QUERY_AND_VALUE = (keras.layers.MultiHeadAttention, keras.layers.GroupQueryAttention)


def check_inner(argument: str, layer: Any) -> Layer:
    """Return the layer that was given as an argument, itself or as its config.

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
    """Return the arguments of a layer for one tensor or shape: Keras' attention takes two.

    It is given no mask that Keras has put onto the tensor, by which its padding attends to nothing.
    """
    if not isinstance(layer, QUERY_AND_VALUE):
        return (x,)
    if getattr(x, "_keras_mask", None) is not None:
        x = ops.copy(x)
    return (x, x)
