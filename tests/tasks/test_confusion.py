"""Test classification scores against their definitions."""

import numpy as np
import pytest

from keras_permix.tasks import task_of
from keras_permix.tasks.classification import (
    auc_score,
    class_accuracies,
    confusion_matrix,
    f1_score,
)
from tests.zoo.models import tiny

pytestmark = pytest.mark.once
RNG = np.random.default_rng(0)
LABELS, PREDICTED = RNG.integers(0, 2, 60), RNG.integers(0, 2, 60)


def test_f1_is_harmonic_mean_of_precision_and_recall():
    hits = np.sum((LABELS == 1) & (PREDICTED == 1))
    precision, recall = hits / np.sum(PREDICTED == 1), hits / np.sum(LABELS == 1)
    found = f1_score(confusion_matrix(LABELS, PREDICTED, 2))
    assert found == pytest.approx(2 * precision * recall / (precision + recall))
    assert f1_score(np.array([[3, 0], [0, 0]])) == 0


def test_one_class_has_no_auc():
    task = task_of(tiny(num_classes=2))
    scores = task.measure(np.eye(2)[[1, 1, 1]], np.float32([[0, 1], [1, 0], [0, 1]]))
    assert scores == {"top1": pytest.approx(2 / 3), "f1": pytest.approx(0.8)}


def test_auc_is_fraction_of_ordered_pairs():
    scores = RNG.integers(0, 9, 60) / 8  # with ties
    pairs = [(a > b) + (a == b) / 2 for a in scores[LABELS == 1] for b in scores[LABELS == 0]]
    assert auc_score(LABELS, scores) == pytest.approx(np.mean(pairs))
    assert np.isnan(auc_score(np.ones(3, int), np.arange(3.0)))


def test_accuracy_per_class():
    labels, predicted = np.array([0, 0, 0, 2]), np.array([0, 0, 2, 2])
    confusion = confusion_matrix(labels, predicted, 3)
    assert confusion.tolist() == [[2, 0, 1], [0, 0, 0], [0, 0, 1]]
    np.testing.assert_allclose(class_accuracies(confusion), [2 / 3, np.nan, 1])
