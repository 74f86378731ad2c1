"""A causal MEGA reads texts some tokens at a time, in memory that does not grow."""

from collections.abc import Iterable
from typing import Any

import numpy as np
from keras import ops

from keras_permix._typing import Model
from keras_permix.ops.reference.linear import full_precision
from keras_permix.zoo.sequence_classifier import check_tokens


def read_on(
    model: Model, head: Iterable[str], tokens: Any, state: dict | None
) -> tuple[Any, Any, dict]:
    """What `MEGA.stream` says.

    Args:
        model: A `MEGA`.
        head: Names of its layers from the mean of all tokens to the logits.
        tokens: Integers `(batch, tokens)`.
        state: What the call before returned, or `None`.

    Returns:
        `(features, logits, state)`.

    Raises:
        ValueError: as `MEGA.stream` says.
    """
    config = model.get_config()
    if config["pairs"] or config["image_size"]:
        raise ValueError(
            "`stream` needs a model of single texts. "
            f"Received: pairs={config['pairs']}, image_size={config['image_size']}"
        )
    if not ops.is_tensor(tokens):
        tokens = np.asarray(tokens)
        check_tokens(tokens, np.ones(np.shape(tokens)), {**config, "max_length": np.inf})
    blocks = [model.get_layer(f"block_{index}") for index in range(config["depth"])]
    start: dict[str, Any] = {
        "blocks": [None] * len(blocks), "total": 0.0, "position": np.int32(0)
    }  # fmt: skip
    _check_state(state, start, tokens.shape[0])
    state = start if state is None else state
    x, states = model.get_layer("embedding")(ops.convert_to_tensor(tokens)), []
    for block, before in zip(blocks, state["blocks"], strict=True):
        x, after = block.stream(x, before)
        states.append(after)
    normed = model.get_layer("norm")(x) if config["norm_first"] else x
    total = state["total"] + ops.sum(ops.cast(normed, full_precision(normed.dtype)), axis=1)
    position = state["position"] + tokens.shape[1]
    logits = total / ops.cast(position, total.dtype)
    for name in head:
        logits = model.get_layer(name)(logits)
    total = ops.stop_gradient(total)
    return x, logits, {"blocks": states, "total": total, "position": position}


def _check_state(state, start, texts):
    """Check that a state is what `stream` gave, for as many texts."""
    if state is None:
        return
    if not isinstance(state, dict) or state.keys() != start.keys():
        raise ValueError(
            f"`state` must be what `stream` gave before, or None. Received: {str(state)[:100]}"
        )
    before = state["total"].shape[0]
    if isinstance(texts, int) and isinstance(before, int) and texts != before:
        raise ValueError(
            "`tokens` must be of the texts that `state` is of. "
            f"Received: tokens of {texts}, state of {before}"
        )
