"""Transfer weights to a model with another head, size or other arguments."""

import warnings
from collections import defaultdict
from collections.abc import Callable
from typing import Any

from keras import ops

from keras_permix._typing import Model
from keras_permix.layers.parts.wrappers import assign_copy

# Arguments that do not require another model than the stored one.
HARMLESS = {"dtype", "name", "trainable"}
# Arguments, also of a `mixer`, that keep the weights valid: the model resizes weights for them, or
# they are used only in training.
FITTED = {
    *("num_classes", "predicts", "target_mean", "target_std", "targets"),
    *("image_size", "patch_size", "max_sequence_length", "position_resizing"),
    "steps_image_size",
    *("dropout", "input_dropout", "hidden_dropout", "attention_dropout"),
    *("keep_unused_params", "ragged", "fused", "domain"),
}


def transfer_weights(
    source: Model, target: Model, overrides: dict[str, Any], new_head: bool = False
) -> None:
    """Copy the weights of `source` to `target`, of the same class, by their paths.

    A head for another number of outputs, or with `new_head`, is initialized to zeros, so that all
    classes start with the same probability. The model resizes other weights; see
    `ZooModel.transfer_weight`. Errors name `overrides`, the arguments that differ.
    """
    find = by_path(source)
    new_head = new_head or source.output_shape != target.output_shape
    for weight in target.weights:
        if new_head and weight.path.startswith("head/"):
            weight.assign(ops.zeros(weight.shape, weight.dtype))
            continue
        value = find(weight.path)
        if value is not None:
            value = target.transfer_weight(weight, value, source)
        if value is None or tuple(value.shape) != tuple(weight.shape):
            raise ValueError(
                "Arguments must keep the shapes of weights. For random weights, set "
                "`load_weights=False` or omit `init`. "
                f"Received: {overrides}, with which `{weight.path}` is "
                f"{tuple(weight.shape)} instead of {None if value is None else tuple(value.shape)}"
            )
        assign_copy(weight, value)


def remake(model: Model, changes: dict[str, Any]) -> Model:
    """Return a model with changed arguments, and copy the weights that match by path and shape."""
    new = type(model).from_config({**model.get_config(), **changes})
    find = by_path(model)
    for weight in new.weights:
        old = find(weight.path)
        if old is not None and tuple(old.shape) == tuple(weight.shape):
            assign_copy(weight, old)
            weight.trainable = weight.trainable and old.trainable
    return new


def by_path(model: Model) -> Callable[[str], Any]:
    """Return a function from a path to the weight of the model with this path, or None."""
    weights = defaultdict(list)
    for weight in model.weights:
        weights[weight.path].append(weight)

    def find(path: str) -> Any:
        found = weights[path]
        if len(found) > 1:
            rule = "Weights must have different paths; create those of layers in `build`"
            raise ValueError(f"{rule}. Received: {len(found)} weights {path!r} in {model.name}")
        return found[0] if found else None

    return find


def warn_of_changes(config: dict[str, Any], changed: dict[str, Any]) -> None:
    """Warn about changed arguments for which the weights must be trained again."""
    harmless = HARMLESS | FITTED
    if "targets" in config:
        harmless |= {"mean", "std", "target_units"}
    if config.get("pooling") == "mean_of_length":
        harmless -= {"max_sequence_length"}
    differing = [
        f"{key}={value!r:.200} instead of {config.get(key)!r:.200}"
        for key, value in changed.items()
        if key not in harmless and _trained(value) != _trained(config.get(key))
    ]
    if differing:
        warnings.warn(
            "A preset predicts well only with the arguments that its weights were trained with. "
            f"Train the model again. Received: {', '.join(differing)}",
            stacklevel=4,
        )


def _trained(value):
    """Return the parts of an argument that the weights depend on."""
    if isinstance(value, dict):  # a mixer
        return {key: part for key, part in value.items() if key not in FITTED}
    if isinstance(value, tuple | list):  # of numbers, or of mixers
        return [_trained({"name": part} if isinstance(part, str) else part) for part in value]
    return value
