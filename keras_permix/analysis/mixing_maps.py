"""Compute the mixing maps `(tokens, tokens)` of a model, exact or measured."""

import contextlib
from typing import Any, NamedTuple

import keras
import numpy as np
from keras import ops

from keras_permix import layers as ours
from keras_permix._typing import Model
from keras_permix.analysis.influence_maps import influences
from keras_permix.analysis.permutation_maps import source_tokens
from keras_permix.analysis.watch import watched
from keras_permix.layers.graph.graphormer_block import GraphAttention, GraphSliceSort
from keras_permix.layers.mega.mega_attention import MegaAttention
from keras_permix.layers.mixing.token_mixer import MixingLayer
from keras_permix.layers.parts.masks import mask_arguments
from keras_permix.layers.parts.wrappers import flatten_map, input_arguments

MIXING = (
    keras.layers.MultiHeadAttention, MixingLayer, ours.ButterflyBlock, ours.MLPMixerBlock,
    MegaAttention, GraphAttention,
)  # fmt: skip


class MixingMap(NamedTuple):
    """Hold the mixing map of a mixer.

    Args:
        name: Path of the layer.
        kind: "permutation" or "attention" for exact maps. "measured" by `influence_map`, or "block"
            if it was measured on a whole block, with its skip connections.
        map: Float array `(tokens, tokens)`, outputs first, averaged over samples, and over channels
            or heads.
        mask: Booleans `(batch, tokens)`, True at real tokens, or `None`.

    Example:
        >>> from keras_permix.analysis import mixing_maps
        >>> from keras_permix.zoo import ViT
        >>> model = ViT.from_preset("test")
        >>> first, second = mixing_maps(model, model.make_inputs(0, 2))
        >>> second.name, second.kind, second.map.shape, second.mask
        ('block_1/mixer', 'attention', (16, 16), None)
    """

    name: str
    kind: str
    map: np.ndarray
    mask: np.ndarray | None


def mixing_maps(model: Model, inputs: Any) -> list[MixingMap]:
    """Return the maps of all mixers of a model, in call order.

    Maps are exact for these mixers, also within a `ButterflyBlock`:

    * `CSP` and `SliceSort`: permutations, counted over channels;
    * `SoftmaxAttention`, `SimpleAttention`, MEGA, Graphormer and Keras' attention: averaged over
      heads, by absolute value if there is no softmax;
    * `SliceGraphormer`: the sort of a head multiplied by the weights from its bias. With the mode
      "release", which adds the sorted values, the map is the mean of both.

    Maps of all other mixers are measured by `influence_map`. This includes `CausalCSP`,
    `SinkhornCSP`, linear and local attention, Fourier transforms and moving averages. Blocks of
    MLP-Mixers, and blocks with other mixers within a `ButterflyBlock`, are measured as a whole.

    Args:
        model: A model with mixers of this package, or Keras' `MultiHeadAttention` to tokens.
        inputs: Inputs of the model.

    Returns:
        A list of `MixingMap`, empty for a model without tokens.

    Raises:
        ValueError: for attention over some of the tokens, or if a map is measured in 16 bits.

    Example:
        >>> from keras_permix.analysis import mixing_maps
        >>> from keras_permix.zoo import CSPViT
        >>> model = CSPViT.from_preset("test")
        >>> maps = mixing_maps(model, model.make_inputs(0, 2))
        >>> [(one.name, one.kind, one.map.shape) for one in maps]
        [('block_0/mixer', 'permutation', (16, 16)), ('block_1/mixer', 'permutation', (16, 16))]
    """
    if not model.built:
        model(inputs, training=False)  # Layers may be made, and are called to build the model.
    calls: list[tuple[Any, dict[str, Any]]] = []
    with contextlib.ExitStack() as stack:
        for layer in {id(layer): layer for layer in _mixers(model)}.values():
            stack.enter_context(
                watched(layer, lambda layer, given, _: calls.append((layer, given)))
            )
        model(inputs, training=False)
    return [_map_of(layer, given) for layer, given in calls]


def _mixers(layer):
    """Return the layers that mix tokens, without those inside other mixers."""
    for part in layer._flatten_layers(include_self=False, recursive=False):
        if isinstance(part, ours.MegaBlock):
            yield part.attention if part.attends else part.mixer  # not the moving average
        elif isinstance(part, MIXING):
            yield part
        elif isinstance(part, ours.MixerBlock):
            yield from list(_mixers(part)) or [part.mixer]
        else:
            yield from _mixers(part)


def _map_of(layer, given):
    first = next(iter(given.values()))
    masks = ["mask", "inputs_mask", "tokens_mask"]
    masks += ["query_mask", "value_mask"] if given.get("value") is first else []
    mask = next((given[name] for name in masks if given.get(name) is not None), None)
    maps, kind = _exact(layer, given, mask)
    mask = None if mask is None else ops.convert_to_numpy(mask).astype(bool)
    if maps is None:
        grid = ops.convert_to_numpy(ops.cast(first, "float32"))
        tokens = grid.reshape(len(grid), -1, grid.shape[-1])
        masked = mask_arguments(layer, mask)

        def mixed(x):
            given = input_arguments(layer, x.reshape(-1, *grid.shape[1:]))
            return ops.reshape(layer(*given, **masked), x.shape)

        maps = influences(mixed, tokens)
        inner = layer.block if isinstance(layer, ours.ButterflyBlock) else layer
        whole = isinstance(inner, ours.MixerBlock | ours.MLPMixerBlock)
        kind = "block" if whole else "measured"
    mask = None if mask is None else mask.reshape(len(mask), -1)
    maps = ops.convert_to_numpy(ops.cast(maps, "float32"))
    return MixingMap(layer.path, kind, _mean(maps, mask), mask)


def _exact(layer, given, mask):
    """Return the exact maps `(batch, tokens, tokens)` of a mixer and their kind, or None."""
    first, *rest = given.values()
    maps, kind = None, "attention"
    if isinstance(layer, keras.layers.MultiHeadAttention):
        attention_axes = layer.get_config()["attention_axes"]
        if attention_axes != tuple(range(1, len(first.shape) - 1)):
            raise ValueError(f"{layer.name} must attend to all tokens. Received: {attention_axes=}")
        maps = ops.mean(layer(**{**given, "return_attention_scores": True})[1], axis=1)
        maps = ops.reshape(maps, (len(first), int(np.prod(first.shape[1:-1])), -1))
    elif isinstance(layer, MegaAttention):
        maps = layer(first, _positions(rest[0]), mask=mask)
    elif isinstance(layer, GraphSliceSort):
        maps = _sorted_maps(layer, first, rest[0], mask)
    elif isinstance(layer, GraphAttention):
        maps = ops.mean(layer.attention_maps(first, rest[0], mask), axis=1)
    elif isinstance(layer, ours.SimpleAttention):
        maps = _products(layer, *flatten_map(first, mask))
    elif isinstance(layer, ours.SoftmaxAttention) and not isinstance(layer, ours.LocalAttention):
        masks = {name: given.get(name) for name in ("attention_mask", "use_causal_mask")}
        maps = ops.mean(layer.attention_maps(first, mask, **masks), axis=1)
    elif isinstance(layer, ours.CSP | ours.SliceSort) and not isinstance(layer, ours.SinkhornCSP):
        maps, kind = _permutations(layer, *flatten_map(first, mask)), "permutation"
    elif isinstance(layer, ours.ButterflyBlock):
        maps, kind = _within_blocks(layer, first, mask)
    return maps, kind


def _within_blocks(butterfly, tokens, mask):
    """Return the exact maps of the mixer within a `ButterflyBlock`, with zeros between blocks."""
    mixer = butterfly.block
    if butterfly.axis != 1 or not isinstance(mixer, ours.MixerBlock | MixingLayer):
        return None, None
    blocks = butterfly.cut(tokens)
    if isinstance(mixer, ours.MixerBlock):
        blocks = mixer.mixer_norm(blocks) if mixer.norm_first else blocks
        mixer = mixer.mixer
    mask = None if mask is None else butterfly.cut(mask)
    given = {"inputs": blocks}
    if isinstance(mixer, keras.layers.MultiHeadAttention):
        given = {"query": blocks, "value": blocks, **mask_arguments(mixer, mask)}
    maps, kind = _exact(mixer, given, mask)
    if maps is None:
        return maps, kind
    maps, size = ops.convert_to_numpy(ops.cast(maps, "float32")), tokens.shape[1]
    members = ops.convert_to_numpy(butterfly.cut(ops.arange(size)[None]))
    whole = np.zeros((len(maps) // len(members), size, size), "float32")
    for index, positions in enumerate(members):
        whole[:, positions[:, None], positions] = maps[index :: len(members)]
    return whole, kind


def _products(attention, tokens, mask):
    """Return the sizes of the weights of `SimpleAttention`, averaged over heads."""
    query, key, value = attention.split_heads(tokens)
    # Attention is linear in the values, so unit vectors as values return its matrix.
    rows = ops.expand_dims(_positions(value[:, :, 0]), 2)
    maps = attention.attend(query, key, ops.repeat(rows, value.shape[2], axis=2), mask)
    return ops.mean(ops.abs(ops.cast(maps, "float32")), axis=2)


def _positions(values):
    """Return unit vectors as values, for which a linear mixer returns its matrix."""
    batch, tokens, _ = values.shape
    return ops.broadcast_to(ops.eye(tokens, dtype=values.dtype), (batch, tokens, tokens))


def _permutations(layer, tokens, mask):
    """Return the share of channels in which an output token is an input token, `(batch, n, n)`."""
    values = layer.value_dense(tokens) if layer.use_value_projection else tokens
    return _shares(values, lambda ranks: layer.mix(ranks, mask))[:, 0]


def _sorted_maps(layer, tokens, bias, mask):
    """Return the map of a `GraphSliceSort`: means by its bias, sorted or added to the sort."""
    values, weights = layer.value_dense(tokens), layer.attention_maps(tokens, bias, mask)
    before = layer.average(weights, values) if layer.mode == "paper" else values
    sort = _shares(before, lambda ranks: layer.sort(ranks, mask, bias), layer.num_heads)
    weights = ops.convert_to_numpy(ops.cast(weights, "float32"))
    maps = sort @ weights if layer.mode == "paper" else (sort + weights) / 2
    return maps.mean(axis=1)


def _shares(values, permute, groups=1):
    """Return the share of channels in which each output is each input: `(batch, groups, n, n)`.

    `permute` is a function of values.
    """
    sources = source_tokens(values, permute)
    batch, tokens, channels = values.shape
    shares = np.zeros((batch, groups, tokens, tokens), "float32")
    samples, outputs, numbers = np.indices(sources.shape)
    group = numbers * groups // channels
    np.add.at(shares, (samples, group, outputs, sources), groups / channels)
    return shares


def _mean(maps, mask):
    """Average over the samples, and each row over the samples in which its token is real."""
    if mask is None:
        return maps.mean(axis=0)
    maps = maps * mask[:, :, None] * mask[:, None, :]
    return maps.sum(axis=0) / np.maximum(mask.sum(axis=0), 1)[:, None]
