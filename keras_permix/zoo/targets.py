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
NUMBERS = {  # targets: a number per output
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
    keras.losses.binary_crossentropy: BINARY,
    **NUMBERS,
}


def check_targets(x: Any, y: Any, sample_weight: Any, model: Any) -> None:
    """Check the targets and sample weights of one call, as `to_arrays` converts them.

    Args:
        x: Converted inputs. A data set holds its own targets, which are not checked.
        y: Targets. Only arrays and tensors are checked.
        sample_weight: Sample weights, or `None`.
        model: A model of the zoo.

    Raises:
        ValueError: for missing targets, names instead of numbers, rows of different lengths, or
            sample weights that are not finite. With a crossentropy of Keras, also for another
            shape or classes out of range; with a distance of Keras, also for another shape, NaN or
            infinity.
    """
    needed = _needs_targets(model)
    if y is None and needed and are_arrays(x):
        raise ValueError("`y` must contain the targets of `x`. Received: y=None")
    if isinstance(y, list | tuple) and y and _begins_with_number(y):
        raise ValueError(f"`y` must have rows of the same length. Received: y={str(y)[:200]}")
    if not _holds_numbers(y):
        index = "; use the index of a class in `model.labels`" if hasattr(model, "classify") else ""
        raise ValueError(
            f"`y` must contain numbers{index}. Received: y={str(y[:3])} of shape {np.shape(y)}"
        )
    if (isinstance(y, np.ndarray) or keras.ops.is_tensor(y)) and needed:
        found = _loss_object(model.loss)
        loss = FUNCTIONS.get(found, type(found)) if callable(found) else None
        if loss in (SPARSE, DENSE):
            _check_classes(y, model, loss)
        elif loss is BINARY or loss in NUMBERS.values():
            _check_numbers(y, model, loss)
    if isinstance(sample_weight, np.ndarray | list):
        kind = getattr(sample_weight, "dtype", np.dtype(object)).kind
        if kind not in "biufV" or kind == "f" and not np.isfinite(sample_weight).all():
            raise ValueError(
                f"`sample_weight` must contain finite numbers. Received: {str(sample_weight)[:200]}"
            )


def _needs_targets(model):
    """Return whether the loss of a model compares outputs with targets as Keras does."""
    methods = ("compute_loss", "train_step", "test_step")
    unchanged = all(getattr(type(model), name) is getattr(keras.Model, name) for name in methods)
    return unchanged and getattr(model, "loss", None) is not None


def _begins_with_number(y):
    first = y[0]
    return isinstance(first[0] if isinstance(first, list) and first else first, numbers.Real)


def _holds_numbers(y):
    if isinstance(y, list | tuple):
        return not any(isinstance(leaf, str) for leaf in keras.tree.flatten(y))
    return not isinstance(y, np.ndarray) or y.dtype.kind in "biufV"


def _check_numbers(y, model, loss):
    """Check shape and values: Keras broadcasts other widths, and a NaN destroys all weights."""
    shape, outputs = tuple(y.shape), model.output_shape[-1]
    if shape[1:] not in ((outputs,), *[()] * (outputs == 1)):
        raise ValueError(
            f"`y` must be (samples, {outputs}) for the loss {loss.__name__}. "
            f"Received: y.shape={shape}"
        )
    values = keras.ops.convert_to_numpy(y)
    if values.dtype.kind not in "biuf":
        return
    lost = ~np.isfinite(values).reshape(len(values), -1).all(axis=1)
    if lost.any():
        raise ValueError(
            f"`y` must contain finite numbers for the loss {loss.__name__}. Leave out samples "
            f"with unknown targets. Received: NaN or infinity in {lost.sum()} of {len(lost)} "
            f"samples, first at index {lost.argmax()}"
        )
    if loss is BINARY:
        _warn_of_probabilities(model, loss)
        if values.size and not 0 <= values.min() <= values.max() <= 1:
            raise ValueError(
                f"`y` must contain 0 or 1 per label for the loss {loss.__name__}. "
                f"Received: y from {values.min()} to {values.max()}"
            )


def _check_classes(y, model, loss):
    shape, classes = tuple(y.shape), model.output_shape[-1]
    rows = "(samples,)" if loss is SPARSE else f"(samples, {classes})"
    if shape[1:] not in (((), (1,)) if loss is SPARSE else ((classes,),)):
        raise ValueError(
            f"`y` must be {rows} for the loss {loss.__name__}. Received: y.shape={shape}"
        )
    _warn_of_probabilities(model, loss)
    values = keras.ops.convert_to_numpy(y)
    if loss is DENSE or values.dtype.kind not in "biuf":
        return
    ignored = getattr(_loss_object(model.loss), "ignore_class", None)
    values = values if ignored is None else values[values != ignored]
    if values.dtype.kind == "f" and (values % 1).any():
        raise ValueError(
            f"`y` must contain class indices for the loss {loss.__name__}. "
            f"Received: y with {values[values % 1 != 0].flat[0]}"
        )
    if values.size and not 0 <= values.min() <= values.max() < classes:
        raise ValueError(
            f"`y` must contain classes from 0 to {classes - 1} for the loss {loss.__name__}. To "
            "skip samples, set its `ignore_class`. "
            f"Received: y from {values.min()} to {values.max()}"
        )


def _loss_object(loss):
    """Return the loss of a name, or of a list or dict with one loss."""
    while isinstance(loss, list | tuple | dict) and len(loss) == 1:
        (loss,) = loss.values() if isinstance(loss, dict) else loss
    return keras.losses.get(loss) if isinstance(loss, str) else loss


def _warn_of_probabilities(model, loss):
    """Warn once if the loss expects probabilities instead of logits."""
    takes_logits = getattr(_loss_object(model.loss), "from_logits", False)
    if takes_logits or model._warned_loss_id == id(model.loss):
        return
    model._warned_loss_id = id(model.loss)
    warnings.warn(
        "The model outputs logits, but its loss expects probabilities. Compile it with "
        f"`keras.losses.{loss.__name__}(from_logits=True)`.",
        stacklevel=6,
    )
