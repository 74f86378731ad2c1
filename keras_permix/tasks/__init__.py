"""Define how models of a task load data, train, score and predict."""

from keras_permix._typing import Model
from keras_permix.tasks.graph_regression import GraphRegression
from keras_permix.tasks.image_classification import (
    ImageClassification,
    ImageRegression,
    MultiLabelImages,
)
from keras_permix.tasks.task import Task
from keras_permix.tasks.text_classification import (
    MultiLabelPairs,
    MultiLabelTexts,
    PairClassification,
    PairRegression,
    TextClassification,
    TextRegression,
)
from keras_permix.utils.checks import check_choice

TASKS = {
    task.name: task
    for task in (
        *(ImageClassification, MultiLabelImages, ImageRegression),
        *(TextClassification, MultiLabelTexts, TextRegression),
        *(PairClassification, MultiLabelPairs, PairRegression),
        GraphRegression,
    )
}


def task_of(model: Model) -> Task:
    """Return the task of a model of the zoo.

    Args:
        model: A `ZooModel`.

    Returns:
        A `Task` of this model.

    Raises:
        ValueError: if its class has no task.

    Example:

    >>> from keras_permix.tasks import task_of
    >>> from keras_permix.zoo import CSPViT
    >>> task_of(CSPViT.from_preset("test")).name
    'image_classification'
    """
    return TASKS[check_choice(f"{type(model).__name__}.task", model.task, TASKS)](model)


__all__ = [
    "TASKS",
    "GraphRegression",
    "ImageClassification",
    "ImageRegression",
    "MultiLabelImages",
    "MultiLabelPairs",
    "MultiLabelTexts",
    "PairClassification",
    "PairRegression",
    "Task",
    "TextClassification",
    "TextRegression",
    "task_of",
]
