"""Define the base class of regression tasks."""

import math
from dataclasses import replace
from typing import Any

import keras
import numpy as np

from keras_permix.data import Dataset
from keras_permix.data.dataset import labels_of
from keras_permix.tasks.task import Task


class Regression(Task):
    """Train and score models of numbers with the mean absolute error.

    Errors are in the units of the data.
    """

    predicts = "values"
    scale_names = ("target_mean", "target_std")  # arguments of the model

    def of_classes(self, dataset: Dataset) -> Dataset:
        outputs = self.model.output_shape[-1]
        train, test = (
            (x, np.repeat(classes[:, None], outputs, axis=1).astype("float32"))
            for x, classes in (dataset.train, dataset.test)
        )
        labels = tuple(f"y{number}" for number in range(outputs))
        return replace(dataset, train=train, test=test, labels=labels)

    def scale(self, dataset: Dataset) -> dict[str, Any]:
        """Return mean and standard deviation of the training targets, rounded."""
        targets = labels_of(dataset.train)
        stds = targets.std(axis=0, dtype="float64")
        stds = np.where(stds > 0, stds, 1)
        means = targets.mean(axis=0, dtype="float64")
        pairs = [
            (_as_exact(mean, std), _as_exact(std, std))
            for mean, std in zip(means, stds, strict=True)
        ]
        return {
            name: values[0] if len(values) == 1 else list(values)
            for name, values in zip(self.scale_names, zip(*pairs, strict=True), strict=True)
            if name in self.config
        }

    def loss(self, label_smoothing: float = 0.0) -> Any:
        if label_smoothing:
            raise ValueError(f"`label_smoothing` requires classes. Received: {label_smoothing=}")
        scale = np.asarray(self.config.get(self.scale_names[1], 1.0), "float32")
        if scale.ndim == 0:
            return keras.losses.MeanAbsoluteError()
        # Targets of several units count equally.
        inverse = (1 / scale).tolist()
        return lambda y, outputs: keras.ops.mean(
            keras.ops.abs(outputs - y) * keras.ops.convert_to_tensor(inverse, outputs.dtype),
            axis=-1,
        )

    def metrics(self) -> list[Any]:
        return [keras.metrics.MeanAbsoluteError(name="mae")]

    def measure(self, targets: np.ndarray, outputs: np.ndarray) -> dict[str, float]:
        """Return the mean absolute error and, with several targets, that of each."""
        errors = np.abs(targets - outputs).mean(axis=0, dtype="float64")
        names = self.record(errors, len(errors)) if len(errors) > 1 else {}
        return {"mae": float(errors.mean())} | {f"mae_{name}": x for name, x in names.items()}

    def baseline(self, dataset: Dataset) -> dict[str, float]:
        """Return the mean absolute error of predicting the mean of the training targets."""
        train, test = labels_of(dataset.train), labels_of(dataset.test)
        return {"mae_of_mean": float(np.abs(test - np.mean(train, axis=0)).mean())}

    def answer(self, output: np.ndarray, top: int) -> list[str]:
        units = self.config.get("target_units", "")
        units = [units] * len(output) if isinstance(units, str) else units
        return [
            f"{f'{value:.6g} {unit}'.rstrip()}  {label}"
            for (label, value), unit in zip(self.record(output, top).items(), units, strict=True)
        ]

    def record(self, output: np.ndarray, top: int) -> dict[str, Any]:
        labels = self.model.labels or [f"y{number}" for number in range(len(output))]
        return {label: float(value) for label, value in zip(labels, output, strict=True)}


def _as_exact(mean, std):
    """Round a number to the fourth digit of `std`."""
    return round(float(mean), 3 - math.floor(math.log10(std)))
