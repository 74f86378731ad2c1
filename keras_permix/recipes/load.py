"""Read recipes from TOML files, and override their values."""

import json
import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from keras_permix._typing import StrPath
from keras_permix.recipes.find import find_recipe
from keras_permix.recipes.images import images_recipe, is_images
from keras_permix.recipes.recipe import Recipe, make_recipe, merge
from keras_permix.utils.checks import check_choice

NONE = "none"  # TOML has no null


def load_recipe(recipe: StrPath, option: str | None = None, **changes: Any) -> Recipe:
    """Read a recipe from a TOML file.

    A recipe may name another as its `base` and change parts of it, and may contain `options`, named
    sets of changes. Tables are merged key by key; a table with another `name` (another mixer,
    another optimizer) replaces the old one.

    Args:
        recipe: Name or path. A folder of images, or a file that lists images, requires `init`.
        option: Named option of the recipe. Defaults to `None`.
        **changes: New values: `epochs=2`, `model={"hidden_dim": 64}`.

    Raises:
        ValueError: for an unknown recipe, option or key, or a value of a wrong type or range.

    Example:
        >>> from keras_permix.training import load_recipe
        >>> recipe = load_recipe("cspvit/mnist", epochs=2, model={"hidden_dim": 64})
        >>> recipe.epochs, recipe.model["class_name"], recipe.model["hidden_dim"]
        (2, 'CSPViT', 64)
    """
    path = find_recipe(recipe)
    values = read_values(path)
    options = values.pop("options", None) or {}
    if option is not None:
        values = merge(values, options[check_choice("option", option, options)])
    values = merge(values, changes)
    return make_recipe(values, " with ".join([str(path), *format_overrides(changes)]))


def read_values(path: Path, *derived: Path) -> dict[str, Any]:
    """Read a recipe, on which others are based, with its `options` and its own `base`."""
    if path in derived:
        raise ValueError(f"A recipe must not be its own `base`. Received: {path}")
    if is_images(path):
        return images_recipe(path)
    values = read_toml(path)
    base = values.pop("base", None)
    return values if base is None else merge(read_values(find_recipe(base), path, *derived), values)


def read_toml(path: Path) -> dict[str, Any]:
    """Read a TOML file, in which the string "none" is `None`."""
    with open(path, "rb") as file:
        try:
            return _without_none(tomllib.load(file))
        except ValueError as error:
            raise ValueError(f"A recipe must be valid TOML. Received: {path} ({error})") from error


def parse_overrides(overrides: Iterable[str]) -> dict[str, Any]:
    """Parse strings `key=value` or `key.key=value` into a nested dict.

    Values are TOML; text that is not TOML is a string, and "none" is `None`. The last value of a
    key is used.

    Example:
        >>> parse_overrides(["epochs=2", "model.mixer=csp", "ema=none"])
        {'epochs': 2, 'ema': None, 'model': {'mixer': 'csp'}}
    """
    given = []
    for override in overrides:
        key, separator, text = override.partition("=")
        parts = key.strip().split(".")
        if not separator or not all(parts):
            raise ValueError(f"An override must have the form `key=value`. Received: {override!r}")
        given.append((parts, parse_value(text)))
    values: dict[str, Any] = {}
    # A new name replaces its table (see `merge`), so tables come before their names, and names
    # before other keys of the table.
    for parts, value in sorted(given, key=lambda pair: (len(pair[0]), pair[0][-1] != "name")):
        for part in reversed(parts):
            value = {part: value}
        values = merge(values, value)
    return values


def parse_value(text: str) -> Any:
    """Parse the value of an override as TOML, or return it as a string."""
    try:
        read = tomllib.loads(f"value = {text}")
        json.dumps(read)
    except (TypeError, ValueError):  # A date or a time is text.
        read = {}
    return _without_none({"value": text, **(read if len(read) == 1 else {})})["value"]


def format_overrides(changes: dict[str, Any], prefix: str = "") -> list[str]:
    """Format a nested dict as strings for `parse_overrides`."""
    words = []
    for key, value in changes.items():
        if isinstance(value, dict) and value:
            words += format_overrides(value, f"{prefix}{key}.")
        else:
            words.append(f"{prefix}{key}={format_value(value)}")
    return words


def format_value(value: Any) -> str:
    """Format a value for `parse_value`: as TOML, or as text that TOML cannot read."""
    if value is None:
        return NONE
    if isinstance(value, str) and parse_value(value) == value:
        return value
    return format_toml(value)


def format_toml(value: Any) -> str:
    """Format a value as TOML, with inline tables, and "none" for `None`."""
    if isinstance(value, dict):
        return f"{{{', '.join(f'{key} = {format_toml(part)}' for key, part in value.items())}}}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(format_toml, value))}]"
    return json.dumps(NONE if value is None else value)


def _without_none(values):
    """Replace the string "none" by `None`, but not in a list of strings."""
    if isinstance(values, dict):
        return {key: _without_none(value) for key, value in values.items()}
    if isinstance(values, list):
        return [_without_none(part) if isinstance(part, dict) else part for part in values]
    return None if values == NONE else values
