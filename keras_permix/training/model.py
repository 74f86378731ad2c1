"""Make the model of a recipe, with its initial weights and frozen parts, and fit it to data."""

from collections.abc import Iterable
from dataclasses import replace
from fnmatch import fnmatchcase
from pathlib import Path

import keras

from keras_permix import zoo
from keras_permix._typing import Model, StrPath
from keras_permix.data import Dataset
from keras_permix.recipes.recipe import Recipe
from keras_permix.tasks import task_of
from keras_permix.utils.checks import check_choice
from keras_permix.zoo.classifier import Classifier
from keras_permix.zoo.presets.load import load_preset
from keras_permix.zoo.presets.names import find_preset
from keras_permix.zoo.presets.transfer import remake


def with_class(recipe: Recipe) -> Recipe:
    """Return the recipe with a known class in `model`, by default that of its `init` preset."""
    model = recipe.model
    if recipe.init:
        if is_run(recipe.init) and not Path(recipe.init).is_dir():
            raise ValueError(f"`init` must be a run trained before. Received: init={recipe.init!r}")
        given = zoo.MODELS.get(model.get("class_name", ""))
        model = {"class_name": find_preset(recipe.init, given).class_name, **model}
    check_choice("model.class_name", model.get("class_name"), sorted(zoo.MODELS))
    return replace(recipe, model=model)


def is_run(init: str | None) -> bool:
    """Return whether `init` is the preset of a run in `runs/`."""
    return Path(init or "").parts[:1] == ("runs",)


def make_model(recipe: Recipe) -> Model:
    """Make the model of a recipe, in the recipe's precision.

    Weights are initialized from the recipe's seed, or loaded from the preset `init`. Layers named
    by `freeze` are not trainable.

    Args:
        recipe: The `Recipe`.

    Returns:
        A `ZooModel`.

    Raises:
        ValueError: for an unknown model class, an `init` of another class, or a `freeze` that
            matches no layer.

    Example:
        >>> from keras_permix.training import load_recipe, make_model
        >>> model = make_model(load_recipe("cspvit/mnist", model={"num_layers": 1}))
        >>> type(model).__name__, model.get_config()["num_layers"]
        ('CSPViT', 1)
    """
    recipe = with_class(recipe)
    spec = {**recipe.model, "dtype": recipe.precision}
    found = zoo.MODELS[spec.pop("class_name")]
    keras.utils.set_random_seed(recipe.seed)
    made = load_preset(found, recipe.init, **spec) if recipe.init else found(**spec)
    freeze(made, recipe.freeze)
    return made


def fit_outputs(model: Model, recipe: Recipe, dataset: Dataset) -> Model:
    """Fit the outputs of a model to its data: the head, its labels, and the scale of targets.

    The head has one output per label unless the recipe sets `num_classes`. A preset keeps its head
    and scale if the labels are those of the preset. Values of the recipe take precedence over
    `Task.scale` and `Task.domain`. The result may be a copy; a new head is initialized to zeros.
    """
    labels = tuple(dataset.labels)
    same = recipe.init and labels == model.labels
    if isinstance(model, Classifier):
        classes = recipe.model.get("num_classes") or len(labels)
        if recipe.init and not same or classes != model.output_shape[-1]:
            model = model.reset_classifier(classes)
    if len(labels) != model.output_shape[-1]:
        return model
    model.labels = list(labels)
    task, config = task_of(model), model.get_config()
    found = {**task.domain(dataset), **({} if same else task.scale(dataset))}
    found = {k: v for k, v in found.items() if k not in recipe.model and v != config[k]}
    return remake(model, found) if found else model


def take_assets(model: Model, folder: StrPath) -> None:
    """Load the assets of a resumed run, such as its tokenizer, into the model."""
    folder = Path(folder)
    for name, file in model.asset_files.items():
        if (folder / "checkpoints").is_dir() and (folder / file).is_file():
            setattr(model, name, folder / file)


def freeze(model: Model, parts: str | Iterable[str] | None) -> None:
    """Freeze parts of a model.

    They are "backbone", all layers except the head, or names of layers, which may contain `*`, such
    as `["patch_embedding", "block_*"]`.
    """
    if parts in ("backbone", ["backbone"], ("backbone",)):
        model.backbone.trainable = False
        return
    for pattern in [parts] if isinstance(parts, str) else parts or ():
        found = [layer for layer in model.layers if fnmatchcase(layer.name, pattern)]
        if not found:
            names = ["backbone", *(layer.name for layer in model.layers)]
            raise ValueError(f"`freeze` must be among {names}. Received: freeze={pattern!r}")
        for layer in found:
            layer.trainable = False
    if not model.trainable_weights:
        raise ValueError(f"`freeze` leaves no trainable weights. Received: freeze={parts!r}")
