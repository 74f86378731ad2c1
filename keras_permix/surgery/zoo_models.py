"""Swap the mixers of zoo models through their config."""

from typing import Any

import numpy as np
from keras import ops

from keras_permix.layers.graph.graphormer_block import MIXERS as GRAPH_MIXERS
from keras_permix.layers.mega.mega_block import check_mega_mixer
from keras_permix.layers.mixers import check_mixer, mixer_at
from keras_permix.layers.parts.wrappers import assign_copy
from keras_permix.surgery.mixers import (
    check_swappable,
    copy_projections,
    fitting_arguments,
    indices,
)
from keras_permix.utils.checks import check_named
from keras_permix.zoo.classifier import shifts
from keras_permix.zoo.graphormer import Graphormer
from keras_permix.zoo.mega import MEGA
from keras_permix.zoo.presets.transfer import remake


def swap_in_zoo(model: Any, mixer: Any, layers: Any) -> Any:
    """Swap the mixers of a zoo model, and copy weights of the same path, and projections."""
    config = model.get_config()
    if "mixer" not in config:
        raise ValueError(f"`model` must have a `mixer`. Received: {type(model).__name__}")
    depth = config["num_layers"]
    chosen = indices(layers, [f"block_{index}" for index in range(depth)])
    specs = [mixer_at(config["mixer"], index) for index in range(depth)]
    if isinstance(model, MEGA):
        spec = check_mega_mixer(mixer)
        specs = [spec if index in chosen else old for index, old in enumerate(specs)]
        changes: dict[str, Any] = {"mixer": specs}
        if not any(isinstance(spec, str) for spec in specs):
            changes["chunk_size"] = None  # requires attention
        new = remake(model, changes)
        for index in chosen:
            old, block = (_block(one, index) for one in (model, new))
            _carry_gates(old, block)
            if block.attends and not old.attends:  # Unused weights were not trainable.
                block.attention.trainable = old.trainable
        return new
    if isinstance(model, Graphormer):
        spec = check_named("mixer", mixer, GRAPH_MIXERS)
        specs = [spec if index in chosen else old for index, old in enumerate(specs)]
        return remake(model, {"mixer": specs})
    spec = check_mixer(mixer)
    old = {index: _mixer(model, index) for index in chosen}
    for index, layer in old.items():
        check_swappable(layer, spec)
        specs[index] = {**fitting_arguments(layer, spec, config.get("num_heads")), **spec}
    changes = {"mixer": specs}
    kept = [spec for index, spec in enumerate(specs) if index not in chosen]
    if "steps_image_size" in config and not any(map(shifts, kept)):
        changes["steps_image_size"] = None  # New mixers have the steps of the image size.
    new = remake(model, changes)
    for index, layer in old.items():
        copy_projections(_mixer(new, index), layer)
    return new


def _block(model, index):
    return model.get_layer(f"block_{index}")


def _mixer(model, index):
    """Return the mixer of a block, or of the block inside a butterfly."""
    block = _block(model, index)
    return getattr(block, "block", block).mixer


def _carry_gates(old, new):
    """Copy the gates of a MEGA block; with attention, their kernel includes queries and keys."""
    if old.parts == new.parts:
        return
    for ours, theirs in zip(new.gate_dense.weights, old.gate_dense.weights, strict=True):
        merged = [
            after if tuple(before.shape) != tuple(after.shape) else before
            for after, before in zip(_gates(ours, new), _gates(theirs, old), strict=True)
        ]
        assign_copy(ours, ops.concatenate(merged, axis=-1))
        ours.trainable = theirs.trainable


def _gates(weight, block):
    return ops.split(ops.convert_to_tensor(weight), np.cumsum(block.parts)[:-1].tolist(), axis=-1)
