"""Define the base class of composite layers, the layers inside them, and checks of shapes."""

import inspect
import re
from math import prod
from typing import Any

import keras
from keras import ops
from keras.dtype_policies import DTypePolicyMap

from keras_permix._typing import Layer
from keras_permix.ops import dense
from keras_permix.ops.backend import running
from keras_permix.utils.checks import (
    check_choice,
    check_flags,
    check_integer,
    check_layer_index,
    check_number,
)

FROM_ZERO = ("layer_index", "seed")  # integers that may be 0


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


def check_policy(dtype: Any) -> Any:
    """Return the policy of a dtype for a model whose weights are not quantized yet."""
    policy: Any = keras.dtype_policies.get(dtype)
    if getattr(policy, "quantization_mode", None) is not None:
        raise ValueError(f"`dtype` must not quantize: call `quantize`. Received: {policy}")
    return policy


def _key(layer, part):
    """Return the path of a part of a model, or a pattern for a part of a layer in any model."""
    if isinstance(layer, keras.Model):
        return part.path
    below = part.path.removeprefix(layer.path) if layer.path else f"/{part.path}"
    return f"(.*/)?{re.escape(layer.name + below)}"


def policy_at(policy: Any, path: str | None) -> Any:
    """Return the policy of the layer at a path, if `policy` is a map, else `policy`.

    Keras reads the quantization mode of a policy when it saves weights, and maps have none.
    """
    return policy[path] if path and isinstance(policy, DTypePolicyMap) else policy


def parameters_of(layer: type[Any]) -> dict[str, inspect.Parameter]:
    """Return the arguments of a class of layers, including those of its bases."""
    own: list[Any] = [c for c in reversed(layer.__mro__) if issubclass(c, keras.layers.Layer)]
    items = [item for cls in own for item in inspect.signature(cls.__init__).parameters.items()]
    return {name: each for name, each in items if name not in ("self", "args", "kwargs")}


class Composite(keras.layers.Layer):
    """Contain other layers, and keep the shape and the mask of the input by default.

    A subclass stores its arguments as attributes of the same names, by `_store` unless they need
    other checks. The config holds them, and the policies of quantized layers inside, so that
    quantized models can be saved, loaded and cloned. A layer that is frozen before it is built
    freezes the layers that `build` makes. Booleans that are neither True nor False raise a
    ValueError.
    """

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.supports_masking = True

    def _store(self, variables, **choices):
        """Check the arguments of a constructor, and store them; `variables` are its `locals()`.

        An argument in `choices` has one of these values, and one in `FROM_ZERO` is an integer of at
        least 0. Of the others, an `int` is positive, and a `float` is positive or, if its name ends
        in "dropout", a rate. Arguments that the constructor deleted are skipped.
        """
        parameters = inspect.signature(variables["__class__"].__init__).parameters
        check_flags(variables, parameters)
        given = variables.keys() - {"self", "args", "kwargs"}
        if {"layer_index", "num_layers"} <= given:
            check_layer_index(variables["layer_index"], variables["num_layers"])
        for name in [name for name in parameters if name in given]:
            value = variables[name]
            if name in choices:
                check_choice(name, value, choices[name])
            elif name in FROM_ZERO:
                value = check_integer(name, value, least=0)
            else:
                value = check_number(name, value, parameters[name].annotation)
            setattr(self, name, value)

    def _post_build(self):
        super()._post_build()
        if not self.trainable:
            for part in self._flatten_layers(include_self=False):
                part.trainable = False

    def compute_output_shape(self, input_shape: Any) -> Any:
        return tuple(input_shape)

    def _dense(self, name, units, input_shape, activation=None, stddev=None, **arguments):
        """Make a `Dense` in the dtype policy of this layer, and build it.

        `stddev`: Standard deviation of the initial kernel. `None`: Glorot uniform.
        """
        if stddev is not None:
            arguments["kernel_initializer"] = keras.initializers.RandomNormal(stddev=stddev)
        layer = Dense(units, activation, dtype=self.dtype_policy, name=name, **arguments)
        layer.build(input_shape)
        return layer

    def _norm(self, name, input_shape):
        """Make a `LayerNormalization` with the `epsilon` of this layer, and build it."""
        policy = self.dtype_policy
        norm = keras.layers.LayerNormalization(epsilon=self.epsilon, dtype=policy, name=name)
        norm.build(input_shape)
        return norm

    def _tokens_shape(self, shape, maps=True):
        """Return the shape (batch, tokens, channels) of tokens or a map, with known channels."""
        if len(shape) not in ((3, 4) if maps else (3,)) or shape[-1] is None:
            or_map = " or (batch, rows, columns, channels)" if maps else ""
            rule = f"The input must have the shape (batch, tokens, channels){or_map}."
            raise ValueError(f"{rule} Received: input_shape={tuple(shape)}")
        sides = shape[1:-1]
        return (shape[0], None if None in sides else prod(sides), shape[-1])

    def get_config(self) -> dict[str, Any]:
        own = [name for name in parameters_of(type(self)) if name not in parameters_of(Composite)]
        stored = {name: _plain(getattr(self, name)) for name in own if hasattr(self, name)}
        policy = keras.dtype_policies.serialize(policy_of(self))
        return {**super().get_config(), **stored, "dtype": policy}


def _plain(argument):
    """Return an argument, with layers, activations and initializers serialized."""
    if isinstance(argument, keras.layers.Layer):
        return serialize_unbuilt(argument)
    return keras.activations.serialize(argument) if callable(argument) else argument


def serialize_unbuilt(layer):
    """Return the config of a layer that another layer builds."""
    config = keras.layers.serialize(layer)
    config.pop("build_config", None)
    return config


def assign_copy(variable, value):
    """Assign a copy of a tensor or another variable to a variable, in its dtype.

    Without the copy, two variables would share an array on JAX, and a step on one deletes it.
    """
    variable.assign(ops.copy(ops.cast(value, variable.dtype)))


@keras.saving.register_keras_serializable("keras_permix")
class Dense(keras.layers.Dense):
    """Compute `keras.layers.Dense` by `keras_permix.ops.dense`."""

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

    Keras' sparse gradients hold one row per token. Its optimizers square the rows before they add
    those of the same id, so Adam and clipping by norms would differ from the other backends.
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

    `Dropout` requires `training` to be a Python boolean even at rate zero, which fails with Keras'
    rematerialization on JAX.
    """
    return keras.layers.Dropout(float(rate), **kwargs) if rate else keras.layers.Identity(**kwargs)


@keras.saving.register_keras_serializable("keras_permix")
class FirstToken(keras.layers.Layer):
    """Return the first tokens `(batch, channels)` of `(batch, tokens, channels)`.

    Replaces a slice, which JAX 0.8 cannot rematerialize in the graph of a Keras model.
    """

    def call(self, tokens):
        return tokens[:, 0]

    def compute_mask(self, tokens, previous_mask=None):
        return None

    def compute_output_spec(self, tokens):
        return keras.KerasTensor((tokens.shape[0], tokens.shape[2]), self.compute_dtype)


def flatten_map(inputs, mask=None):
    """Flatten a map and its mask to tokens ordered by rows; keep tokens."""
    mask = None if mask is None else ops.convert_to_tensor(mask, "bool")
    if len(inputs.shape) == 3:
        return inputs, mask
    batch, rows, columns, channels = ops.shape(inputs)
    tokens = rows * columns if isinstance(rows, int) and isinstance(columns, int) else -1
    mask = None if mask is None else ops.reshape(mask, (batch, tokens))
    return ops.reshape(inputs, (batch, tokens, channels)), mask


def unflatten_map(tokens, inputs):
    """Undo `flatten_map`: reshape tokens to the map `inputs`, with any number of channels."""
    if len(inputs.shape) == 3:
        return tokens
    return ops.reshape(tokens, (*ops.shape(inputs)[:3], tokens.shape[-1]))


QUERY_AND_VALUE = (keras.layers.MultiHeadAttention, keras.layers.GroupQueryAttention)


def check_inner(argument: str, layer: Any) -> Layer:
    """Return the layer that was given as an argument, as a layer or its config."""
    layer = keras.layers.deserialize(layer) if isinstance(layer, dict) else layer
    if not isinstance(layer, keras.layers.Layer):
        raise TypeError(f"`{argument}` must be a layer. Received: {argument}={layer!r}")
    return layer


def input_arguments(layer: Layer, x: Any) -> tuple[Any, ...]:
    """Return the arguments of a layer for one tensor or shape: Keras' attention takes two."""
    if not isinstance(layer, QUERY_AND_VALUE):
        return (x,)
    # Copied without its Keras mask, which would leave padding without any key to attend to.
    x = ops.copy(x) if hasattr(x, "dtype") else x
    return (x, x)
