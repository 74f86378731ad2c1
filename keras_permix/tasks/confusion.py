"""Compute scores from predicted classes and labels."""

import numpy as np


def confusion_matrix(labels: np.ndarray, predicted: np.ndarray, num_classes: int) -> np.ndarray:
    """Count samples by label (rows) and predicted class (columns).

    Example:

    >>> confusion_matrix(np.array([0, 0, 1]), np.array([0, 1, 1]), 2).tolist()
    [[1, 1], [0, 1]]
    """
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

    Args:
        labels: 0 or 1 per sample.
        scores: Number per sample, larger for class 1. Ties count half.

    Example:

    >>> auc_score(np.array([0, 1, 0, 1]), np.array([0.1, 0.4, 0.4, 0.8]))
    0.875
    """
    _, at, counts = np.unique(scores, return_inverse=True, return_counts=True)
    ranks = (np.cumsum(counts) - (counts - 1) / 2)[at]  # from 1; tied scores share their mean rank
    positives, negatives = int((labels == 1).sum()), int((labels == 0).sum())
    if not positives or not negatives:
        return float("nan")
    above = ranks[labels == 1].sum() - positives * (positives + 1) / 2
    return float(above / (positives * negatives))
