"""What tasks whose answer is one of several classes share."""

from typing import Any

import keras
import numpy as np

from keras_permix.data.pipeline import Augment
from keras_permix.tasks.task import Task


class Classification(Task):
    """A task of models that give a logit for each of `num_classes` classes."""

    @property
    def num_classes(self) -> int:
        return self.config["num_classes"]

    def preparation(self, augmentation: dict[str, Any] | None, seed: int) -> Augment:
        return OneHot(self.augment(augmentation, seed), self.num_classes)

    def augment(self, augmentation: dict[str, Any] | None, seed: int) -> Augment | None:
        """The function of `Pipeline` that a recipe's dict describes, or `None`."""
        self.refuse_augmentation(augmentation)
        return None

    def loss(self, label_smoothing: float = 0.0) -> Any:
        return keras.losses.CategoricalCrossentropy(
            from_logits=True, label_smoothing=label_smoothing
        )

    def metrics(self) -> list[Any]:
        return [keras.metrics.CategoricalAccuracy(name="accuracy")]

    def answer(self, output: np.ndarray, top: int) -> list[str]:
        (best,) = self.model.decode_predictions(output[None], top)
        return [f"{100 * probability:6.2f} %  {label}" for label, probability in best]

    def record(self, output: np.ndarray, top: int) -> dict[str, Any]:
        (best,) = self.model.decode_predictions(output[None], top)
        row: dict[str, Any] = {}
        for rank, (label, probability) in enumerate(best, 1):
            row |= {f"label_{rank}": label, f"probability_{rank}": round(float(probability), 6)}
        return row


class OneHot:
    """Augment a batch, then make its labels one-hot where the augmentation has not."""

    def __init__(self, augment, num_classes):
        self.augment = augment
        self.num_classes = num_classes

    def __call__(self, inputs, labels, epoch, index):
        if self.augment is not None:
            inputs, labels = self.augment(inputs, labels, epoch, index)
        if labels.ndim == 1:
            labels = np.eye(self.num_classes, dtype="float32")[labels]
        return inputs, labels
