"""Define the base classes of classification tasks, with one class or several labels."""

from dataclasses import replace
from functools import partial
from typing import Any

import keras
import numpy as np

from keras_permix.data import Dataset
from keras_permix.data.pipeline import Augment
from keras_permix.tasks.task import Task


class Classification(Task):
    """Train and score models that output a logit per class."""

    def preparation(self, augmentation: dict[str, Any] | None, seed: int) -> Augment | None:
        return partial(_one_hot, self.augment(augmentation, seed), self.num_classes)

    def loss(self, label_smoothing: float = 0.0) -> Any:
        return keras.losses.CategoricalCrossentropy(
            from_logits=True, label_smoothing=label_smoothing
        )

    def metrics(self) -> list[Any]:
        return [keras.metrics.CategoricalAccuracy(name="accuracy")]

    def measure(self, targets: np.ndarray, outputs: np.ndarray) -> dict[str, float]:
        """Return the scores of predictions, with F1 and AUC of the second of two classes.

        There is no AUC if all samples have the same class.
        """
        scores = {metric.name: float(metric(targets, outputs)) for metric in self.metrics()}
        if self.num_classes == 2:
            labels = targets.argmax(-1)
            scores["f1"] = f1_score(confusion_matrix(labels, outputs.argmax(-1), 2))
            auc = auc_score(labels, outputs[:, 1] - outputs[:, 0])
            scores |= {"auc": auc} if np.isfinite(auc) else {}
        return scores

    def answer(self, output: np.ndarray, top: int) -> list[str]:
        (best,) = self.model.decode_predictions(output[None], top)
        return [f"{100 * probability:6.2f} %  {label}" for label, probability in best]

    def record(self, output: np.ndarray, top: int) -> dict[str, Any]:
        (best,) = self.model.decode_predictions(output[None], top)
        row: dict[str, Any] = {}
        for rank, (label, probability) in enumerate(best, 1):
            row |= {f"label_{rank}": label, f"probability_{rank}": round(float(probability), 6)}
        return row


class MultiLabel(Classification):
    """Train and score models that output a logit per label, any number of which apply."""

    predicts = "labels"

    def of_classes(self, dataset: Dataset) -> Dataset:
        one_hot = np.eye(len(dataset.labels), dtype="float32")
        train, test = ((x, one_hot[classes]) for x, classes in (dataset.train, dataset.test))
        return replace(dataset, train=train, test=test)

    def loss(self, label_smoothing: float = 0.0) -> Any:
        return keras.losses.BinaryCrossentropy(from_logits=True, label_smoothing=label_smoothing)

    def metrics(self) -> list[Any]:
        return [keras.metrics.MeanMetricWrapper(_exact, name="exact")]

    def measure(self, targets: np.ndarray, outputs: np.ndarray) -> dict[str, float]:
        """Return the means over labels of F1 and AUC, and the fraction of exact predictions.

        F1 counts labels with a probability above 0.5. The mean AUC skips labels that occur in all
        or no samples.
        """
        f1, auc = label_scores(targets, outputs)
        exact = ((outputs > 0) == (targets > 0.5)).all(axis=1)
        known = auc[np.isfinite(auc)]
        mean_auc = {"auc": float(known.mean())} if len(known) else {}
        return {"f1": float(f1.mean()), **mean_auc, "exact": float(exact.mean())}

    def record(self, output: np.ndarray, top: int) -> dict[str, Any]:
        """Return the probability of every label."""
        (every,) = self.model.decode_predictions(output[None], len(output))
        chances = dict(every)
        names = self.model.labels or [str(number) for number in range(len(output))]
        return {label: round(chances[label], 6) for label in names}


def _exact(targets, logits):
    """Return for each sample whether all labels are predicted."""
    return keras.ops.all(keras.ops.equal(logits > 0, targets > 0.5), axis=-1)


def label_scores(targets: np.ndarray, logits: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return F1 and AUC per label, from targets 0 or 1 and logits, both `(samples, labels)`."""
    found = [
        (f1_score(confusion_matrix(given, (values > 0).astype(int), 2)), auc_score(given, values))
        for given, values in zip((targets > 0.5).astype(int).T, logits.T, strict=True)
    ]
    f1, auc = np.array(found).T
    return f1, auc


def _one_hot(augment, num_classes, inputs, labels, epoch, index):
    """Augment a batch, and convert classes to one-hot vectors."""
    if augment is not None:
        inputs, labels = augment(inputs, labels, epoch, index)
    if num_classes is not None and labels.ndim == 1:
        labels = np.eye(num_classes, dtype="float32")[labels]
    return inputs, labels


def confusion_matrix(labels: np.ndarray, predicted: np.ndarray, num_classes: int) -> np.ndarray:
    """Count samples by label (rows) and predicted class (columns)."""
    counts = np.bincount(labels * num_classes + predicted, minlength=num_classes**2)
    return counts.reshape(num_classes, num_classes)


def class_accuracies(confusion: np.ndarray) -> np.ndarray:
    """Return the accuracy per class, NaN for a class without samples."""
    totals = confusion.sum(axis=1)
    return np.where(totals > 0, np.diag(confusion) / np.maximum(totals, 1), np.nan)


def f1_score(confusion: np.ndarray) -> float:
    """Return the F1 score of the second of two classes, 0 without a correct prediction of it."""
    hits = confusion[1, 1]
    return float(2 * hits / max(confusion[1].sum() + confusion[:, 1].sum(), 1))


def auc_score(labels: np.ndarray, scores: np.ndarray) -> float:
    """Return the area under the ROC curve of two classes, NaN if one has no samples.

    `labels` are 0 or 1, and `scores` are larger for class 1. Ties count half.
    """
    _, at, counts = np.unique(scores, return_inverse=True, return_counts=True)
    ranks = (np.cumsum(counts) - (counts - 1) / 2)[at]  # from 1; tied scores share their mean rank
    positives, negatives = int((labels == 1).sum()), int((labels == 0).sum())
    if not positives or not negatives:
        return float("nan")
    above = ranks[labels == 1].sum() - positives * (positives + 1) / 2
    return float(above / (positives * negatives))
