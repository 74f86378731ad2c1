"""A look at targets where they come in: what is no class costs a run, on JAX without a word."""

import numbers
import warnings
from typing import Any

import keras
import numpy as np

SPARSE = keras.losses.SparseCategoricalCrossentropy  # whose targets are the numbers of classes
DENSE = keras.losses.CategoricalCrossentropy  # whose targets are a probability per class
NUMBERS = {  # whose targets are a number per output
    keras.losses.mean_absolute_error: keras.losses.MeanAbsoluteError,
    keras.losses.mean_absolute_percentage_error: keras.losses.MeanAbsolutePercentageError,
    keras.losses.mean_squared_error: keras.losses.MeanSquaredError,
    keras.losses.mean_squared_logarithmic_error: keras.losses.MeanSquaredLogarithmicError,
    keras.losses.huber: keras.losses.Huber,
    keras.losses.log_cosh: keras.losses.LogCosh,
}
FUNCTIONS = {
    keras.losses.sparse_categorical_crossentropy: SPARSE,
    keras.losses.categorical_crossentropy: DENSE,
    **NUMBERS,
}


def needs_targets(model: Any) -> bool:
    """Whether a model's loss compares its outputs with targets, in the way that Keras does it."""
    own = ("compute_loss", "train_step", "test_step")
    keras_own = all(getattr(type(model), name) is getattr(keras.Model, name) for name in own)
    return keras_own and getattr(model, "loss", None) is not None


def check_targets(y: Any, model: Any) -> None:
    """Check targets for a method of Keras.

    Args:
        y: Targets as `to_arrays` gives them; anything but an array or tensor is not checked.
        model: A model of the zoo.

    Raises:
        ValueError: for names instead of numbers, or rows of different lengths; where the loss is
            a crossentropy of Keras, for another shape, or for numbers that are not classes of the
            model; where the loss is one of Keras' distances of numbers, for another shape, NaN or
            infinity.
    """
    if isinstance(y, list | tuple) and y and _begins_with_number(y):
        raise ValueError(f"`y` must have rows of one length. Received: y={str(y)[:200]}")
    if not _holds_numbers(y):
        index = "; a class is its index in `model.labels`" if hasattr(model, "classify") else ""
        raise ValueError(
            f"`y` must hold numbers{index}. Received: y={str(y[:3])} of shape {np.shape(y)}"
        )
    if (isinstance(y, np.ndarray) or keras.ops.is_tensor(y)) and needs_targets(model):
        found = _found(model.loss)
        loss = FUNCTIONS.get(found, type(found)) if callable(found) else None
        if loss in (SPARSE, DENSE):
            _check_classes(y, model, loss)
        elif loss in NUMBERS.values():
            _check_numbers(y, model, loss)


def check_weights(weights: Any) -> None:
    """Raise a ValueError unless sample weights, as `to_arrays` gives them, are finite numbers."""
    if isinstance(weights, np.ndarray | list):
        kind = getattr(weights, "dtype", np.dtype(object)).kind
        if kind not in "biufV" or kind == "f" and not np.isfinite(weights).all():
            raise ValueError(
                f"`sample_weight` must hold finite numbers. Received: {str(weights)[:200]}"
            )


def _begins_with_number(y):
    first = y[0]
    return isinstance(first[0] if isinstance(first, list) and first else first, numbers.Real)


def _holds_numbers(y):
    if isinstance(y, list | tuple):
        return not any(isinstance(leaf, str) for leaf in keras.tree.flatten(y))
    return not isinstance(y, np.ndarray) or y.dtype.kind in "biufV"


def _check_numbers(y, model, loss):
    """Keras would repeat targets of another width, and a step with a NaN loses all weights."""
    shape, outputs = tuple(y.shape), model.output_shape[-1]
    if shape[1:] not in ((outputs,), *[()] * (outputs == 1)):
        raise ValueError(
            f"`y` must be (samples, {outputs}) where the loss is {loss.__name__}. "
            f"Received: y.shape={shape}"
        )
    values = keras.ops.convert_to_numpy(y)
    if values.dtype.kind not in "biuf":
        return
    lost = ~np.isfinite(values).reshape(len(values), -1).all(axis=1)
    if lost.any():
        raise ValueError(
            f"`y` must hold finite numbers where the loss is {loss.__name__}; leave out samples "
            f"whose targets nobody knows. Received: y with NaN or infinity in {lost.sum()} of "
            f"{len(lost)} samples, the first of them number {lost.argmax()}"
        )


def _check_classes(y, model, loss):
    shape, classes = tuple(y.shape), model.output_shape[-1]
    rows = "(samples,)" if loss is SPARSE else f"(samples, {classes})"
    if shape[1:] not in (((), (1,)) if loss is SPARSE else ((classes,),)):
        raise ValueError(
            f"`y` must be {rows} where the loss is {loss.__name__}. Received: y.shape={shape}"
        )
    _warn_of_probabilities(model, loss)
    values = keras.ops.convert_to_numpy(y)
    if loss is DENSE or values.dtype.kind not in "biuf":
        return
    ignored = getattr(_found(model.loss), "ignore_class", None)
    values = values if ignored is None else values[values != ignored]
    if values.dtype.kind == "f" and (values % 1).any():
        raise ValueError(
            f"`y` must hold the numbers of classes where the loss is {loss.__name__}. "
            f"Received: y with {values[values % 1 != 0].flat[0]}"
        )
    if values.size and not 0 <= values.min() <= values.max() < classes:
        raise ValueError(
            f"`y` must hold classes from 0 to {classes - 1}, since the model has {classes} and the "
            f"loss is {loss.__name__}; its `ignore_class` may name another that does not count. "
            f"Received: y from {values.min()} to {values.max()}"
        )


def _found(loss):
    """A loss as Keras finds it by name, or alone in a list or dict."""
    while isinstance(loss, list | tuple | dict) and len(loss) == 1:
        (loss,) = loss.values() if isinstance(loss, dict) else loss
    return keras.losses.get(loss) if isinstance(loss, str) else loss


def _warn_of_probabilities(model, loss):
    """A loss of probabilities learns badly from logits: warn once of a model that has it."""
    if getattr(_found(model.loss), "from_logits", False) or model._warned_of_loss == id(model.loss):
        return
    model._warned_of_loss = id(model.loss)
    warnings.warn(
        "The model gives logits, and its loss takes them for probabilities: compile it with "
        f"`keras.losses.{loss.__name__}(from_logits=True)`.",
        stacklevel=5,
    )
