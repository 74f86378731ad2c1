"""A causal MEGA reads texts in pieces, in memory that does not grow."""

from collections.abc import Iterable
from typing import Any

import numpy as np
from keras import ops

from keras_permix._typing import Model
from keras_permix.ops.reference.linear import full_precision
from keras_permix.zoo.sequence_classifier import check_tokens


def first_state(model: Model, batch_size: int) -> dict[str, Any]:
    """`MEGA.initial_state` of a model."""
    config = model.get_config()
    if config["pairs"] or config["image_size"]:
        raise ValueError(
            "`initial_state` needs a model of single texts. "
            f"Received: pairs={config['pairs']}, image_size={config['image_size']}"
        )
    blocks = [block.initial_state(batch_size) for block in _blocks(model)]
    total = ops.zeros((batch_size, config["hidden_dim"]), full_precision(model.compute_dtype))
    return {"blocks": blocks, "total": total, "position": np.int32(0)}


def read_tokens(
    model: Model, head: Iterable[str], tokens: Any, state: dict[str, Any]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """`MEGA.chunk` of a model; `head` names its layers from the mean of tokens to the logits."""
    if not ops.is_tensor(tokens):
        tokens = np.asarray(tokens)
        config = {**model.get_config(), "max_sequence_length": np.inf}
        check_tokens(tokens, np.ones(np.shape(tokens)), config)
    x, states = model.get_layer("embedding")(ops.convert_to_tensor(tokens)), []
    for block, before in zip(_blocks(model), state["blocks"], strict=True):
        x, after = block.chunk(x, before)
        states.append(after)
    normed = model.get_layer("norm")(x) if model.get_config()["norm_first"] else x
    total = state["total"] + ops.sum(ops.cast(normed, full_precision(normed.dtype)), axis=1)
    position = state["position"] + tokens.shape[1]
    logits = total / ops.cast(position, total.dtype)
    for name in head:
        logits = model.get_layer(name)(logits)
    state = {"blocks": states, "total": ops.stop_gradient(total), "position": position}
    return {"features": x, "logits": logits}, state


def _blocks(model):
    return [model.get_layer(f"block_{index}") for index in range(model.get_config()["num_layers"])]
