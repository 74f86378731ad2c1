"""Recipes: small Python files of plain values that say how a preset is trained."""

import ast
import copy
import difflib
import runpy
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from keras_permix._typing import StrPath
from keras_permix.recipe_images import check_start, images_recipe, is_images
from keras_permix.recipe_values import RULES, check_values
from keras_permix.rows import LISTS

# Every value that a recipe may set, with what stands where it does not.
DEFAULTS = {
    "model": {},
    "data": {},
    "augmentation": {},
    "optimizer": {"name": "adam", "learning_rate": 1e-3},
    "schedule": {"name": "constant"},
    "batch_size": 128,
    "epochs": 10,
    "steps_per_epoch": None,  # a pass over the training data
    "seed": 0,
    "precision": "float32",
    "label_smoothing": 0.0,
    "ema": None,
    "init": None,  # a preset whose weights to start from
    "freeze": None,  # "backbone", or names of layers that stay as they are
    "validation_samples": None,
    "test_samples": None,  # all; a number of them, evenly out of the test set
    "paper": None,
}
REQUIRED = ("model", "data")
# Arguments of models that are looked for first, also where a preset's model has them.
OF_MODELS = ("num_layers", "image_size", "num_classes", "patch_size", "hidden_dim")


def recipe_folders() -> list[Path]:
    """Folders that hold recipes: inside an installed package, and beside a checkout's."""
    package = Path(__file__).resolve().parent
    return [folder for folder in (package / "zoo", package.parent / "zoo") if folder.is_dir()]


def list_recipes() -> list[str]:
    """Names of all recipes that the package knows, as `class/preset`.

    Example:

    >>> from keras_permix.training import list_recipes
    >>> [name for name in list_recipes() if name.startswith("vit/")]
    ['vit/cifar10_small', 'vit/tiny_imagenet']
    """
    names = {
        "/".join(path.parent.relative_to(folder).parts)
        for folder in recipe_folders()
        for path in folder.glob("*/*/recipe.py")
    }
    return sorted(names)


def find_recipe(recipe: StrPath) -> Path:
    """The file of a recipe, given by name (`"cspvit/cifar10"`) or by path.

    A folder of images, or a CSV file that lists some, stands for a recipe; see `images_recipe`.

    Raises:
        ValueError: if neither a file, a folder nor a known recipe has that name.
    """
    path = Path(recipe)
    if path.is_file():
        return path
    if (path / "recipe.py").is_file():
        return path / "recipe.py"
    for folder in recipe_folders():
        if (folder / recipe / "recipe.py").is_file():
            return folder / recipe / "recipe.py"
    if is_images(Path(path)):
        return path
    known = list_recipes()
    family = [name for name in known if name.startswith(f"{recipe}/".lower())]
    close = family or difflib.get_close_matches(str(recipe), known, n=1)
    hint = f" Did you mean {' or '.join(close)}?" if close else ""
    raise ValueError(
        "`recipe` must be the path of a recipe or of a folder of images, or the name of a recipe, "
        f"which presets with random weights have none of.{hint} Received: {str(recipe)!r}"
        f"{'' if path.exists() else ', which does not exist'}"
    )


def load_recipe(
    recipe: StrPath, option: str | None = None, overrides: Iterable[str] = ()
) -> dict[str, Any]:
    """Read a recipe as a dict with every key of `DEFAULTS`.

    A recipe may name another as its `base` and change parts of it, and may hold `options`, named
    sets of changes. Dicts are merged key by key; a dict that names
    something else (another mixer, another optimizer) replaces the old one whole.

    Args:
        recipe: Name or path; a folder of images, or a CSV file of some, needs an `init` as well.
        option: Name of one of the recipe's options.
        overrides: Strings `"epochs=2"` or `"model.hidden_dim=64"`; values are Python literals.

    Returns:
        The recipe as a dict.

    Raises:
        ValueError: for an unknown recipe, option or key, or a value out of bounds.

    Example:

    >>> from keras_permix.training import load_recipe
    >>> recipe = load_recipe("cspvit/mnist", overrides=["epochs=2", "model.hidden_dim=64"])
    >>> recipe["epochs"], recipe["model"]["class_name"], recipe["model"]["hidden_dim"]
    (2, 'CSPViT', 64)
    """
    path = find_recipe(recipe)
    values = _read(path)
    options = values.pop("options", {})
    if option is not None:
        if option not in options:
            known = f"one of {sorted(options)}" if options else "None, since there is none,"
            raise ValueError(f"`option` must be {known} for {path}. Received: {option!r}")
        values = merge(values, options[option])
    return complete_recipe(values, overrides, path)


def complete_recipe(
    values: dict[str, Any], overrides: Iterable[str], source: StrPath
) -> dict[str, Any]:
    """The values of a recipe with overrides, as `load_recipe` takes them, and all of `DEFAULTS`.

    Args:
        values: A dict with some keys of `DEFAULTS`.
        overrides: Strings `"epochs=2"` or `"model.hidden_dim=64"`.
        source: Where the values come from, for errors.

    Raises:
        ValueError: for an unknown key, or a value out of bounds.
    """
    overrides = check_overrides(overrides)
    values = merge_overrides(values, overrides)
    _check_keys(values, source)
    values = merge(DEFAULTS, values)
    check_values(values, " with ".join([str(source), *overrides]))
    return values


def check_overrides(overrides: Iterable[str]) -> tuple[str, ...]:
    """Overrides as a tuple.

    Raises:
        ValueError: for a single string, which is one of characters.
    """
    if isinstance(overrides, str):
        raise ValueError(
            f'`overrides` must be a list of strings, such as ["epochs=2"]. Received: {overrides!r}'
        )
    return tuple(overrides)


def merge_overrides(values: dict[str, Any], overrides: Iterable[str]) -> dict[str, Any]:
    """A copy of the nested dict `values` with strings such as `"model.hidden_dim=64"` applied.

    Raises:
        ValueError: for a string that does not read so.
    """
    for override in overrides:
        values = merge(values, parse_override(override))
    return values


def merge(values: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """A copy of the nested dict `values` with `changes` applied key by key."""
    merged = copy.deepcopy(values)
    for key, change in changes.items():
        old = merged.get(key)
        if isinstance(change, dict) and isinstance(old, dict) and _same_name(old, change):
            change = merge(old, change)
        merged[key] = copy.deepcopy(change)
    return merged


def _same_name(old, change):
    return "name" not in change or change["name"] == old.get("name")


def _read(path):
    if is_images(Path(path)):
        return images_recipe(path)
    if Path(path).suffix != ".py":
        raise ValueError(
            "A recipe must be a Python file (.py) of plain values; images to train on lie in a "
            f"folder per class, or are listed ({', '.join(LISTS)}). Received: {path}"
        )
    try:
        found = runpy.run_path(str(path))
    except (Exception, SystemExit) as error:  # Whatever a file may hold that is no recipe.
        raise ValueError(
            "A recipe must be a Python file of plain values. "
            f"Received: {path} ({type(error).__name__}: {error})"
        ) from error
    values = {key: value for key, value in found.items() if not key.startswith("_")}
    base = values.pop("base", None)
    return values if base is None else merge(_read(find_recipe(base)), values)


def _check_keys(values, path):
    if not (values.get("init") or values.get("model")):
        check_start(Path(path))
    unknown = sorted(set(values) - set(DEFAULTS))
    missing = [key for key in REQUIRED if not values.get(key)]
    if values.get("init"):  # whose model it is
        missing = [key for key in missing if key != "model"]
    if not values:
        raise ValueError(
            f"A recipe must set {', '.join(REQUIRED)}; `permix info cspvit/mnist` tells where one "
            f"lies that can be copied. Received: {path}, which sets nothing"
        )
    if unknown or missing:
        near = [_places(key, values.get("model") or {}) for key in unknown]
        hint = "".join(f" Did you mean `{key}`?" for keys in near for key in keys)
        found = {"unknown": unknown, "missing": missing}
        told = " and ".join(f"{kind} keys {keys}" for kind, keys in found.items() if keys)
        raise ValueError(
            f"A recipe sets {', '.join(REQUIRED)} and any of "
            f"{', '.join(sorted(DEFAULTS.keys() - set(REQUIRED)))}.{hint} "
            f"Received: {path} with {told}"
        )


def _places(key, model):
    """Where a key belongs that stands where none of its name does, or one like it; a list."""
    inner = [place for place in RULES if place.rpartition(".")[2] == key]
    if key in model or key in OF_MODELS:
        inner.append(f"model.{key}")
    return inner or difflib.get_close_matches(key, DEFAULTS, n=1)


def parse_override(override: str) -> dict[str, Any]:
    """The nested dict that `key=value` or `key.key=value` stands for, for `merge`.

    Values are Python literals; what is none is a word.

    Raises:
        ValueError: if it does not read so.
    """
    key, separator, text = override.partition("=")
    try:
        value = ast.literal_eval(text)
    except (SyntaxError, ValueError):
        value = text
    if not separator or not key:
        raise ValueError(f"An override reads `key=value`. Received: {override!r}")
    for part in reversed(key.split(".")):
        value = {part: value}
    return value
