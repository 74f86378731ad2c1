"""Transfer weights to a model with another head or size."""

from typing import Any

from keras import ops

from keras_permix._typing import Model
from keras_permix.layers.parts.wrappers import assign_copy

RULE = (
    "Weights of a preset support another head, sizes that the model can resize, and arguments that "
    "do not change the shapes of weights. To change others, start from random weights: with "
    "`load_weights=False` in Python, or without `init` in a recipe."
)


def transfer_weights(
    source: Model, target: Model, overrides: dict[str, Any], new_head: bool = False
) -> None:
    """Copy the weights of `source` to `target`, by their paths.

    A head for another number of outputs is initialized to zeros, so that all classes start with the
    same probability. The model resizes other weights; see `ZooModel.transfer_weight`.

    Args:
        source: The model with the weights.
        target: A model of the same class.
        overrides: The arguments that differ, for the error.
        new_head: Whether to initialize a head for the same number of outputs to zeros, too.

    Raises:
        ValueError: if another weight has no counterpart of its shape, or `target` lacks blocks.
    """
    weights = {weight.path: weight for weight in source.weights}
    blocks, taken = (
        {path.split("/")[0] for path in paths if path.startswith("block_")}
        for paths in (weights, [weight.path for weight in target.weights])
    )
    if lost := blocks - taken:
        raise ValueError(
            f"{RULE} Received: {overrides}, with which {', '.join(sorted(lost))} would be left out"
        )
    new_head = new_head or source.output_shape != target.output_shape
    for weight in target.weights:
        if new_head and weight.path.startswith("head/"):
            weight.assign(ops.zeros(weight.shape, weight.dtype))
            continue
        value = weights.get(weight.path)
        if value is not None:
            value = target.transfer_weight(weight, value, source)
        if value is None or tuple(value.shape) != tuple(weight.shape):
            raise ValueError(
                f"{RULE} Received: {overrides}, with which `{weight.path}` is "
                f"{tuple(weight.shape)} instead of {None if value is None else tuple(value.shape)}"
            )
        assign_copy(weight, value)


def transfer_trainable(source: Model, target: Model, new_head: bool = True) -> None:
    """Freeze in `target` the layers that are frozen in `source`, by their paths.

    Args:
        source: A model.
        target: A model of the same class.
        new_head: Whether the head is always trainable.
    """
    trainable = {layer.path: layer.trainable for layer in source._flatten_layers()}
    for layer in target._flatten_layers(include_self=False):
        layer.trainable = trainable.get(layer.path, True) or (new_head and layer.name == "head")
