"""Load the data of a recipe."""

import dataclasses
from pathlib import Path

from keras_permix import zoo
from keras_permix._typing import StrPath
from keras_permix.data import Dataset
from keras_permix.data.dataset import some
from keras_permix.recipes.recipe import Recipe
from keras_permix.tasks import TASKS, Task
from keras_permix.training.model import with_class

SMOKE_SAMPLES = 32


def check_data(recipe: Recipe) -> None:
    """Check that the task of a recipe's model can load its data, without making the model."""
    recipe = with_class(recipe)
    stored = zoo.preset_info(recipe.init).config if recipe.init else {}
    model = zoo.MODELS[recipe.model["class_name"]]
    TASKS[model.task_for({**stored, **recipe.model})].check_data(recipe.data)


def load_data(
    task: Task, recipe: Recipe, data_dir: StrPath | None = None, smoke: bool = False
) -> Dataset:
    """Load the data of a recipe, or a few samples for a smoke run.

    A smoke run uses generated data, or a few of your images, since reading them may fail. The
    folder of a recipe without `data.path` may be missing then, unless `data_dir` is given.
    """
    own = recipe.data.get("source") in task.own_sources
    given = data_dir is not None or {"path", "train"} & recipe.data.keys()
    if smoke and not (own and (given or Path(recipe.data["name"]).is_dir())):
        dataset = task.generate(SMOKE_SAMPLES, seed=recipe.seed)
    else:
        dataset = task.load(recipe.data, data_dir, seed=recipe.seed)
    train, test = dataset.train, dataset.test
    if smoke:
        train, test = some(train, SMOKE_SAMPLES), some(test, SMOKE_SAMPLES // 4)
    return dataclasses.replace(dataset, train=train, test=some(test, recipe.test_samples))
