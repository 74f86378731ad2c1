"""Select and check the mixers to swap, and carry their projections over."""

from typing import Any

import keras
from keras import ops

from keras_permix.layers.attention.self_attention import SelfAttention
from keras_permix.layers.mixers import CUSTOM, MIXERS, is_causal
from keras_permix.layers.mixing.token_mixer import MixingLayer, TokenMixer
from keras_permix.layers.parts.wrappers import assign_copy, parameters_of
from keras_permix.utils.checks import check_integer, is_index, plain

NAMES = ("query", "key", "value")
# With values of these arguments, attention does more than mix all tokens.
BEYOND = ("output_shape", "use_gate", "sliding_window", "attention_axes")


def indices(layers, names):
    """Return the indices of the selected mixers; `names` lists all mixers."""
    if not names:
        raise ValueError("`model` must contain `MultiHeadAttention` or a mixer. Received: neither")
    if layers is None:
        return list(range(len(names)))
    chosen, layers = [], plain(layers)
    for layer in layers if isinstance(layers, list | tuple) else [layers]:
        number = is_index(layer, len(names))
        if not number and names.count(layer) != 1:
            raise ValueError(f"`layers` must be indices or names in {names}. Received: {layers=}")
        chosen.append(layer % len(names) if number else names.index(layer))
    return chosen


def check_swappable(layer, spec):
    """Raise an error if attention does more than mix all tokens of one tensor."""
    causal = isinstance(layer, MixingLayer) and layer.is_causal
    if causal and not is_causal(spec):
        raise TypeError(f"`mixer` must be causal to replace {layer.name}. Received: mixer={spec}")
    if isinstance(layer, keras.layers.MultiHeadAttention):
        config = layer.get_config()
        usual = (None, False, tuple(range(1, len(input_shape(layer)) - 1)))
        beyond = {name: config[name] for name in BEYOND if config[name] not in usual}
        if beyond:
            raise ValueError(f"{layer.name} must have the defaults of {BEYOND}. Received: {beyond}")


def fitting_arguments(layer, spec, num_heads=None):
    """Return arguments that give a new mixer the width, the heads and the biases of `layer`.

    `num_heads` is for mixers with heads that replace a layer without heads.
    """
    parts = projections(layer)
    if "value" not in parts or spec["name"] == CUSTOM:
        return {}
    kind = MIXERS[spec["name"]].layer
    given: dict[str, Any] = {"use_output_projection": False}
    if "output" in parts:
        given = {"use_output_bias": parts["output"][1] is not None}
    kernel, bias = parts["value"]
    width, inner = kernel.shape
    if issubclass(kind, TokenMixer):
        sizes = {} if inner == width else {"inner_dim": inner}
        return {**sizes, **given, "use_value_bias": bias is not None}
    if not issubclass(kind, SelfAttention):
        return {}
    usual = getattr(layer, "num_heads", num_heads or parameters_of(kind)["num_heads"].default)
    heads = check_integer("num_heads", spec.get("num_heads", usual))
    if inner % heads:
        raise ValueError(f"`num_heads` must divide {inner} channels. Received: num_heads={heads}")
    sizes = {"num_heads": heads, "head_dim": inner // heads}
    return {**sizes, **given, "use_qkv_bias": bias is not None}


def input_shape(layer):
    """Return the shape of the tokens that a mixer was built for."""
    shapes = layer._build_shapes_dict
    return shapes.get("query_shape") or shapes["input_shape"]


def projections(layer):
    """Return the projections "query", "key", "value" and "output" that a built mixer has.

    Each is `(kernel, bias)`. Kernels are `(channels, inner)`, or `(inner, channels)` for "output",
    with contiguous heads. Biases are one vector, or `None`.
    """
    parts = {name: (dense.kernel, dense.bias) for name, dense in _denses(layer).items()}
    if isinstance(layer, SelfAttention):
        kernels = ops.split(layer.qkv_dense.kernel, 3, axis=-1)
        bias = layer.qkv_dense.bias
        biases = [None] * 3 if bias is None else ops.split(bias, 3)
        parts |= dict(zip(NAMES, zip(kernels, biases, strict=True), strict=True))
    return {name: _flat(name, *part) for name, part in parts.items()}


def _flat(name, kernel, bias):
    """Join the axes of heads and head channels, which Keras' attention keeps separate."""
    shape = (-1, kernel.shape[-1]) if name == "output" else (kernel.shape[0], -1)
    return ops.reshape(kernel, shape), None if bias is None else ops.reshape(bias, (-1,))


def copy_projections(layer, other):
    """Copy the projections of another mixer that have the same size, and freeze frozen ones.

    A fused kernel is frozen if one of its projections is frozen in the other mixer.
    """
    given, fused = projections(other), ()
    if isinstance(layer, SelfAttention):
        own, fused = projections(layer), NAMES
        fits = {name for name in NAMES if name in given and _size(given, name) == _size(own, name)}
        parts = [given[name] if name in fits else own[name] for name in NAMES]
        kernel = ops.concatenate([kernel for kernel, _ in parts], axis=-1)
        biases = [ops.zeros_like(kernel[0]) if bias is None else bias for kernel, bias in parts]
        _set(layer.qkv_dense, kernel, ops.concatenate(biases))
    theirs = _denses(other)
    for name, dense in _denses(layer).items():
        if name in given and name not in fused and _size(given, name) == tuple(dense.kernel.shape):
            _set(dense, *given[name])
        if name in theirs and not theirs[name].trainable:
            dense.trainable = False
        for attribute in ("kernel", "bias"):
            weight = getattr(dense, attribute)
            example = getattr(theirs.get(name), attribute, None)
            if weight is not None and example is not None and not example.trainable:
                weight.trainable = False


def _denses(layer):
    """Return the dense layers of a mixer by the names of their projections."""
    if isinstance(layer, keras.layers.MultiHeadAttention):
        denses = (layer._query_dense, layer._key_dense, layer._value_dense, layer._output_dense)
        return dict(zip((*NAMES, "output"), denses, strict=True))
    denses = {}
    if isinstance(layer, SelfAttention):
        denses = dict.fromkeys(NAMES, layer.qkv_dense)
    if isinstance(layer, TokenMixer) and layer.use_value_projection:
        denses["value"] = layer.value_dense
    if getattr(layer, "use_output_projection", False):
        denses["output"] = layer.output_dense
    return denses


def _size(parts, name):
    return tuple(parts[name][0].shape)


def _set(dense, kernel, bias):
    assign_copy(dense.kernel, kernel)
    if dense.bias is not None:
        assign_copy(dense.bias, ops.zeros(dense.bias.shape) if bias is None else bias)
