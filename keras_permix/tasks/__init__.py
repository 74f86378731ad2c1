"""Define how models of a task load data, train, score and predict."""

from typing import Any

from keras_permix._typing import Model
from keras_permix.tasks.classification import Classification, MultiLabel
from keras_permix.tasks.graph_regression import GraphRegression
from keras_permix.tasks.images import ImageTask
from keras_permix.tasks.regression import Regression
from keras_permix.tasks.task import Task
from keras_permix.tasks.texts import PairTask, TextTask
from keras_permix.utils.checks import check_choice

INPUTS: dict[str, Any] = {"image": ImageTask, "text": TextTask, "pair": PairTask}
OUTPUTS: dict[str, Any] = {
    "{}_classification": Classification,
    "multilabel_{}_classification": MultiLabel,
    "{}_regression": Regression,
}
TASKS: dict[str, type[Task]] = {
    name: type(name, (reads, outputs), {"name": name})
    for form, outputs in OUTPUTS.items()
    for word, reads in INPUTS.items()
    for name in [form.format(word)]
}
TASKS[GraphRegression.name] = GraphRegression


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


__all__ = ["TASKS", "Task", "task_of"]
