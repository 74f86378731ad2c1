"""Select the mixers to swap, and check whether they can be swapped."""

from typing import Any

import keras

from keras_permix.layers.attention.self_attention import SelfAttention
from keras_permix.layers.mixers import CUSTOM, MIXERS, is_causal
from keras_permix.layers.mixing.token_mixer import MixingLayer, TokenMixer
from keras_permix.layers.parts.wrappers import parameters_of
from keras_permix.surgery.projections import projections
from keras_permix.utils.checks import check_integer, is_index, plain

# With non-default values of these arguments, attention does more than mix tokens.
BEYOND = {"output_shape": None, "use_gate": False, "sliding_window": None}


def indices(layers, names):
    """Return the indices of the selected mixers; `names` lists all mixers."""
    if not names:
        raise ValueError(
            "`model` must contain Keras' `MultiHeadAttention` or a mixer of keras_permix. "
            "Received: a model with neither"
        )
    if layers is None:
        return list(range(len(names)))
    chosen, layers = [], plain(layers)
    for layer in layers if isinstance(layers, list | tuple) else [layers]:
        number = is_index(layer, len(names))
        if not number and names.count(layer) != 1:
            raise ValueError(
                f"`layers` must be indices of the {len(names)} mixers of the model, or unique "
                f"names of mixers: {names}. Received: layers={layers}"
            )
        chosen.append(layer % len(names) if number else names.index(layer))
    return chosen


def check_swappable(layer, spec):
    """Raise an error if attention does more than mix all tokens of one tensor."""
    causal = isinstance(layer, MixingLayer) and layer.is_causal
    if causal and not is_causal(spec):
        raise TypeError(
            "A causal mixer can be replaced only by a causal mixer, such as "
            f'{{"name": "simple_attention", "causal": True}}. Received: {layer.name}, mixer={spec}'
        )
    if not isinstance(layer, keras.layers.MultiHeadAttention):
        return
    config = layer.get_config()
    all_axes = tuple(range(1, len(input_shape(layer)) - 1))
    for name, usual in {**BEYOND, "attention_axes": all_axes}.items():
        given = config.get(name) or usual
        given = tuple(given) if isinstance(given, list) else given
        if given != usual:
            raise ValueError(
                f"A `MultiHeadAttention` with `{name}` cannot be replaced. "
                f"Received: {name}={given} of {layer.name}"
            )


def fitting_arguments(layer, spec):
    """Return arguments that give a new mixer the width and the biases of `layer`."""
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
    usual = getattr(layer, "num_heads", parameters_of(kind)["num_heads"].default)
    heads = check_integer("num_heads", spec.get("num_heads", usual))
    if inner % heads:
        raise ValueError(
            f"`num_heads` must divide the {inner} channels of the values of {layer.name}. "
            f"Received: num_heads={heads}, mixer={spec}"
        )
    sizes = {"num_heads": heads, "head_dim": inner // heads}
    return {**sizes, **given, "use_qkv_bias": bias is not None}


def input_shape(layer):
    """Return the shape of the tokens that a mixer was built for."""
    shapes = layer._build_shapes_dict
    return shapes.get("query_shape") or shapes["input_shape"]
