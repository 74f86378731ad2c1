"""Where training starts: from fresh weights or a preset's, with a head for the data's classes."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from pathlib import Path

import keras

from keras_permix import zoo
from keras_permix._typing import Model, StrPath
from keras_permix.data import Dataset
from keras_permix.data.dataset import some
from keras_permix.recipes.recipe import Recipe
from keras_permix.tasks import TASKS, Task, task_of
from keras_permix.zoo.classifier import Classifier
from keras_permix.zoo.presets.load import load_preset
from keras_permix.zoo.presets.transfer import transfer_trainable

SMOKE_SAMPLES = 32


def with_class(recipe: Recipe) -> Recipe:
    """A recipe whose `model` says its class, where it starts from a preset.

    Raises:
        ValueError: if that is of another class than the recipe's, or a run that is not there.
    """
    if not recipe.init:
        return recipe
    if is_run(recipe.init) and not Path(recipe.init).is_dir():
        raise ValueError(
            "`init` must be a preset that is there; where a recipe starts from a run of its own, "
            f"its first lines say which command makes it. Received: init={recipe.init!r}"
        )
    found = zoo.preset_info(recipe.init).class_name
    model = {"class_name": found, **recipe.model}
    if model["class_name"] != found:
        raise ValueError(
            "`init` must be a preset of the class that the recipe's `model` names, "
            f"{model['class_name']}. Received: init={recipe.init!r}, of {found}"
        )
    return replace(recipe, model=model)


def is_run(init: str | None) -> bool:
    """Whether weights to start from are those of a run, which may have to be made first."""
    return init is not None and Path(init).parts[:1] == ("runs",)


def check_data(recipe: Recipe) -> None:
    """Check that the task of a recipe's model can load its data, before there is a model.

    Raises:
        ValueError: if the recipe names no model class of the zoo, or a data set or an option of
            one that its task does not know.
    """
    recipe = with_class(recipe)
    stored = zoo.preset_info(recipe.init).config if recipe.init else {}
    task = _class_of(recipe).task_for({**stored, **recipe.model})
    TASKS[task].check_data(recipe.data)


def load_dataset(
    task: Task, recipe: Recipe, data_dir: StrPath | None = None, smoke: bool = False
) -> Dataset:
    """The data of a recipe, or for a smoke run as few as try it out.

    These are made up, but for a folder or list of one's own, which may be what fails.

    Args:
        task: The task of the recipe's model.
        recipe: The `Recipe`.
        data_dir: Folder with data files.
        smoke: Whether for a smoke run.

    Raises:
        OSError: for data that is not to be had.
    """
    if smoke and recipe.data.get("source") not in task.of_ones_own:
        dataset = task.generate(SMOKE_SAMPLES, seed=recipe.seed)
    else:
        dataset = task.load(recipe.data, data_dir, seed=recipe.seed)
    if smoke:
        train = some(dataset.train, SMOKE_SAMPLES)
        dataset = replace(dataset, train=train, test=some(dataset.test, SMOKE_SAMPLES // 4))
    return replace(dataset, test=some(dataset.test, recipe.test_samples))


def make_model(recipe: Recipe) -> Model:
    """The model of a recipe, in the recipe's precision.

    Its weights are made from the recipe's seed, or are those of the preset that `init` names; what
    `freeze` names is not trained.

    Args:
        recipe: The `Recipe`.

    Returns:
        A `ZooModel`.

    Raises:
        ValueError: if the recipe names no model class of the zoo, `init` is of another, or `freeze`
            names no layer.

    Example:

    >>> from keras_permix.training import load_recipe, make_model
    >>> model = make_model(load_recipe("cspvit/mnist", model={"num_layers": 1}))
    >>> type(model).__name__, model.get_config()["num_layers"]
    ('CSPViT', 1)
    """
    recipe = with_class(recipe)
    found = _class_of(recipe)
    spec = {key: value for key, value in recipe.model.items() if value is not None}
    del spec["class_name"]
    keras.utils.set_random_seed(recipe.seed)
    spec["dtype"] = recipe.precision
    if recipe.init:
        made = load_preset(found, recipe.init, **spec)
    else:
        made = found(**spec)
    freeze(made, recipe.freeze)
    return made


def _class_of(recipe):
    name = recipe.model.get("class_name")
    if name not in zoo.MODELS:
        raise ValueError(
            f"`model` must name a class of {sorted(zoo.MODELS)} as `class_name`. Received: {name!r}"
        )
    return zoo.MODELS[name]


def fit_head(model: Model, recipe: Recipe, labels: Sequence[str]) -> Model:
    """The model with a head for the labels of its data, which it is called by from now on.

    A preset's head stays where the labels are the preset's own. Without a `num_classes` in the
    recipe, there are as many classes as labels.

    Args:
        model: The model of the recipe, fresh from `make_model`.
        recipe: The `Recipe`.
        labels: Names of the data's classes or targets.

    Returns:
        The model, or one like it with a new head, of zeros.
    """
    if isinstance(model, Classifier):
        classes = recipe.model.get("num_classes") or len(labels)
        others = recipe.init and tuple(labels) != model.labels
        if others or classes != model.output_shape[-1]:
            model = model.reset_classifier(classes)
    if len(labels) == model.output_shape[-1]:
        model.labels = list(labels)
    return model


def fit_scale(model: Model, recipe: Recipe, dataset: Dataset) -> Model:
    """The model in the scale and domain of its data (`Task.scale`, `Task.domain`).

    What the recipe says stays, and the scale of a preset, if the targets are the preset's own.

    Args:
        model: The model of the recipe, fresh from `make_model`.
        recipe: The `Recipe`.
        dataset: The `Dataset` to train on.

    Returns:
        The model, or one like it with the same weights.
    """
    names = tuple(dataset.labels)
    if len(names) != model.output_shape[-1]:
        return model
    task, same = task_of(model), recipe.init and names == model.labels
    found = {**task.domain(dataset), **({} if same else task.scale(dataset))}
    config = model.get_config()
    found = {k: v for k, v in found.items() if k not in recipe.model and v != config[k]}
    if not found:
        return model
    scaled = type(model).from_config({**config, **found})
    scaled.set_weights(model.get_weights())
    transfer_trainable(model, scaled, new_head=False)
    return scaled


def take_assets(model: Model, folder: StrPath) -> None:
    """Give the model of a run that goes on the texts that it was trained with, as a tokenizer.

    Args:
        model: A `ZooModel`.
        folder: Folder of the run; without checkpoints, nothing is taken from it.
    """
    if not (Path(folder) / "checkpoints").is_dir():
        return
    for name, file in model.asset_files.items():
        if (Path(folder) / file).is_file():
            setattr(model, name, Path(folder) / file)


def freeze(model: Model, parts: str | Iterable[str] | None) -> None:
    """Keep parts of a model as they are while the rest is trained.

    Args:
        model: A `ZooModel`.
        parts: `None`; "backbone", all but the head; or names of layers, in which `*` stands for
            anything, such as `["patch_embedding", "block_*"]`.

    Raises:
        ValueError: for a name that no layer has, or if nothing is left to train.
    """
    if parts == "backbone":
        model.backbone.trainable = False
        return
    names = [layer.name for layer in model.layers]
    for pattern in [parts] if isinstance(parts, str) else parts or ():
        found = [layer for layer in model.layers if fnmatchcase(layer.name, pattern)]
        if not found:
            raise ValueError(
                f'`freeze` must be "backbone" or names of layers: {", ".join(names)}. '
                f"Received: freeze={parts!r}"
            )
        for layer in found:
            layer.trainable = False
    if not model.trainable_weights:
        raise ValueError(f"`freeze` must leave something to train. Received: freeze={parts!r}")
