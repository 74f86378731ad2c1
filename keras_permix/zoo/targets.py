"""Check targets before Keras does: on JAX, classes out of range raise no error."""

import numbers
import warnings
from typing import Any

import keras
import numpy as np

from keras_permix.zoo.arrays import are_arrays

SPARSE = keras.losses.SparseCategoricalCrossentropy  # targets: class indices
DENSE = keras.losses.CategoricalCrossentropy  # targets: a probability per class
BINARY = keras.losses.BinaryCrossentropy  # targets: a probability per label
DISTANCES = (  # targets: a number per output
    keras.losses.MeanAbsoluteError,
    keras.losses.MeanAbsolutePercentageError,
    keras.losses.MeanSquaredError,
    keras.losses.MeanSquaredLogarithmicError,
    keras.losses.Huber,
    keras.losses.LogCosh,
)
FUNCTIONS = {loss().fn: loss for loss in (SPARSE, DENSE, BINARY, *DISTANCES)}


def check_targets(x: Any, y: Any, sample_weight: Any, model: Any) -> None:
    """Check the targets and sample weights of one call, as `to_arrays` converts them.

    With a crossentropy or a distance of Keras, shapes and values are checked as well. Only arrays
    and tensors are checked, not data sets, which hold their own targets.
    """
    steps = ("compute_loss", "train_step", "test_step")
    of_keras = all(getattr(type(model), name) is getattr(keras.Model, name) for name in steps)
    needed = of_keras and getattr(model, "loss", None) is not None
    if y is None and needed and are_arrays(x):
        raise ValueError("`y` must contain the targets of `x`. Received: y=None")
    if isinstance(y, list | tuple):  # not converted: strings, or rows of different lengths
        right = not any(isinstance(leaf, str | numbers.Real) for leaf in keras.tree.flatten(y))
    else:
        right = not isinstance(y, np.ndarray) or y.dtype.kind in "biufV"
    if not right:
        index = "; use the index of a class in `model.labels`" if hasattr(model, "classify") else ""
        raise ValueError(
            f"`y` must contain numbers, in rows of the same length{index}. "
            f"Received: y={str(y)[:200]}"
        )
    if (isinstance(y, np.ndarray) or keras.ops.is_tensor(y)) and needed:
        found = _loss_object(model.loss)
        loss = FUNCTIONS.get(found, type(found)) if callable(found) else None
        if loss in (SPARSE, DENSE):
            _check_classes(y, model, loss)
        elif loss in (BINARY, *DISTANCES):
            _check_numbers(y, model, loss)
    if isinstance(sample_weight, np.ndarray | list):
        weight = np.asarray(sample_weight)
        if (
            weight.dtype.kind not in "biufV"
            or weight.dtype.kind == "f"
            and not np.isfinite(weight).all()
        ):
            raise ValueError(
                f"`sample_weight` must contain finite numbers. Received: {str(weight)[:200]}"
            )


def _check_classes(y, model, loss):
    """Check shape and values of class indices, or the shape of probabilities."""
    classes, name = model.output_shape[-1], loss.__name__
    if getattr(model, "predicts", None) == "labels":
        raise ValueError(
            "A model that predicts labels requires `BinaryCrossentropy(from_logits=True)`, since a "
            f"sample may have several. Received: loss={name}"
        )
    if loss is SPARSE:
        _check_shape(y, name, "(samples,)", (), (1,))
    else:
        _check_shape(y, name, f"(samples, {classes})", (classes,))
    _warn_of_probabilities(model, name)
    values = keras.ops.convert_to_numpy(y)
    if loss is DENSE or values.dtype.kind not in "biuf":
        return
    ignored = getattr(_loss_object(model.loss), "ignore_class", None)
    values = values if ignored is None else values[values != ignored]
    if values.dtype.kind == "f" and (values % 1).any():
        raise ValueError(
            f"`y` must contain class indices for the loss {name}. "
            f"Received: y with {values[values % 1 != 0].flat[0]}"
        )
    if values.size and not 0 <= values.min() <= values.max() < classes:
        raise ValueError(
            f"`y` must contain classes from 0 to {classes - 1} for the loss {name}. To skip "
            f"samples, set its `ignore_class`. Received: y from {values.min()} to {values.max()}"
        )


def _check_numbers(y, model, loss):
    """Check shape and values: Keras broadcasts other widths, and a NaN destroys all weights."""
    outputs, name = model.output_shape[-1], loss.__name__
    _check_shape(y, name, f"(samples, {outputs})", (outputs,), *[()] * (outputs == 1))
    values = keras.ops.convert_to_numpy(y)
    if loss is BINARY:
        _warn_of_probabilities(model, name)
    if values.dtype.kind not in "biuf":
        return
    lost = ~np.isfinite(values).all(axis=tuple(range(1, values.ndim)))
    if lost.any():
        raise ValueError(
            f"`y` must contain finite numbers for the loss {name}. Leave out samples with unknown "
            f"targets. Received: NaN or infinity in {lost.sum()} of {len(lost)} samples, first at "
            f"index {lost.argmax()}"
        )
    if loss is BINARY and values.size and not 0 <= values.min() <= values.max() <= 1:
        raise ValueError(
            f"`y` must contain 0 or 1 per label for the loss {name}. "
            f"Received: y from {values.min()} to {values.max()}"
        )


def _check_shape(y, name, rows, *allowed):
    shape = tuple(y.shape)
    if shape[1:] not in allowed:
        raise ValueError(f"`y` must be {rows} for the loss {name}. Received: y.shape={shape}")


def _warn_of_probabilities(model, name):
    """Warn once if the loss expects probabilities instead of logits."""
    takes_logits = getattr(_loss_object(model.loss), "from_logits", False)
    if takes_logits or model._warned_loss_id == id(model.loss):
        return
    model._warned_loss_id = id(model.loss)
    warnings.warn(
        "The model outputs logits, but its loss expects probabilities. Compile it with "
        f"`keras.losses.{name}(from_logits=True)`.",
        stacklevel=6,
    )


def _loss_object(loss):
    """Return the loss of a name, or of a list or dict with one loss."""
    while isinstance(loss, list | tuple | dict) and len(loss) == 1:
        (loss,) = loss.values() if isinstance(loss, dict) else loss
    return keras.losses.get(loss) if isinstance(loss, str) else loss
