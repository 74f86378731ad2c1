"""Check targets, since Keras on JAX does not reject classes out of range."""

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
KINDS = (SPARSE, DENSE, BINARY, *DISTANCES)
FUNCTIONS = {loss().fn: loss for loss in KINDS}


def check_targets(x: Any, y: Any, sample_weight: Any, model: Any) -> None:
    """Check the targets and sample weights of one call, as `to_arrays` converts them.

    Data sets, which hold their own targets, and custom training steps are not checked.
    """
    steps = ("compute_loss", "train_step", "test_step")
    custom = any(getattr(type(model), name) is not getattr(keras.Model, name) for name in steps)
    if custom or getattr(model, "loss", None) is None:
        return
    strings = isinstance(y, np.ndarray) and y.dtype.kind not in "biufV"
    listed = isinstance(y, list | tuple)  # not converted: strings, or rows of different lengths
    if strings or listed or y is None and are_arrays(x):
        rule = "`y` must be an array of numbers, such as class indices"
        raise ValueError(f"{rule}. Received: y={str(y)[:200]}")
    loss = _loss_object(model.loss)
    kind = FUNCTIONS.get(loss, type(loss)) if callable(loss) else None
    if kind in KINDS and (isinstance(y, np.ndarray) or keras.ops.is_tensor(y)):
        _check_values(y, loss, kind, model)
    if isinstance(sample_weight, np.ndarray) and not np.isfinite(sample_weight).all():
        raise ValueError(f"`sample_weight` must be finite. Received: {str(sample_weight)[:200]}")


def _check_values(y, loss, kind, model):
    """Check shape and values: Keras broadcasts other widths, and a NaN destroys all weights."""
    name, outputs = kind.__name__, model.output_shape[-1]
    if kind in (SPARSE, DENSE) and getattr(model, "predicts", None) == "labels":
        raise ValueError(f"`loss` must be BinaryCrossentropy for labels. Received: loss={name}")
    rows = [(outputs,)]
    if kind is SPARSE or outputs == 1 and kind is not DENSE:
        rows = [(), (1,)]
    if tuple(y.shape[1:]) not in rows:
        shape = f"(samples, {outputs})" if rows[0] else "(samples,)"
        raise ValueError(f"`y` must be {shape} for {name}. Received: y.shape={tuple(y.shape)}")
    if kind in (SPARSE, DENSE, BINARY):
        _warn_of_probabilities(loss, name, model)
    values = keras.ops.convert_to_numpy(y)
    right, wanted = np.isfinite(values), "finite numbers"
    if kind is SPARSE:
        right = (values >= 0) & (values < outputs) & (values % 1 == 0)
        right |= values == getattr(loss, "ignore_class", None)
        wanted = f"classes from 0 to {outputs - 1}"
    elif kind is BINARY:
        right, wanted = (values >= 0) & (values <= 1), "0 or 1 per label"
    if not right.all():
        first = right.reshape(len(right), -1).all(axis=1).argmin()
        rule = f"`y` must contain {wanted} for {name}"
        raise ValueError(f"{rule}. Received: y[{first}]={values[first]}")


def _warn_of_probabilities(loss, name, model):
    """Warn once if the loss expects probabilities instead of logits."""
    if getattr(loss, "from_logits", False) or model._warned_loss_id == id(model.loss):
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
