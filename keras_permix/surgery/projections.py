"""Read and write the projections of mixers in a common form."""

import keras
from keras import ops

from keras_permix.layers.attention.self_attention import SelfAttention
from keras_permix.layers.mixing.token_mixer import TokenMixer
from keras_permix.layers.parts.wrappers import assign_copy

NAMES = ("query", "key", "value")


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
