"""Find the recipes and presets of the package, without Keras."""

import difflib
from pathlib import Path

from keras_permix._typing import StrPath
from keras_permix.recipes.images import is_images

RECIPE_FILE = "recipe.toml"
CONFIG_FILE = "config.json"
METADATA_FILE = "metadata.json"
WEIGHTS_FILE = "model.weights.h5"


def recipe_folders() -> list[Path]:
    """Return the folders of recipes, of an installed package and of a checkout."""
    package = Path(__file__).resolve().parents[1]
    return [folder for folder in (package / "zoo", package.parent / "zoo") if folder.is_dir()]


def weights_folders() -> tuple[Path, Path]:
    """Return the folders of presets, of a checkout and of an installed package."""
    package = Path(__file__).resolve().parents[1]
    return package.parent / "weights", package / "weights"


def known_recipes() -> dict[str, Path]:
    """Return a dict from `class/preset` to the file of the recipe."""
    return {
        f"{path.parts[-3]}/{path.parts[-2]}": path
        for folder in reversed(recipe_folders())
        for path in sorted(folder.glob(f"*/*/{RECIPE_FILE}"))
    }


def list_recipes() -> list[str]:
    """List the names of the package's recipes, as `class/preset`.

    Example:
        >>> from keras_permix.training import list_recipes
        >>> [name for name in list_recipes() if name.startswith("mega/")]
        ['mega/listops_small']
    """
    return sorted(known_recipes())


def known_presets() -> dict[str, Path | None]:
    """Return a dict from `class/preset` to the preset's folder, `None` if untrained."""
    folders: dict[str, Path | None] = dict.fromkeys(known_recipes())
    for weights in weights_folders():
        for class_folder in weights.glob("[!.]*/"):
            for path in class_folder.glob(f"[!.]*/{METADATA_FILE}"):
                folders[f"{class_folder.name}/{path.parent.name}"] = path.parent
    return dict(sorted(folders.items()))


def find_recipe(recipe: StrPath) -> Path:
    """Find the file of a recipe, or a folder or list of images.

    A known name takes precedence over a file or folder of the same name.
    """
    known, path = known_recipes(), Path(recipe)
    if isinstance(recipe, str) and recipe in known:
        return known[recipe]
    if path.suffix == ".toml" and path.is_file() or is_images(path):
        return path
    family = [name for name in known if name.startswith(f"{recipe}/".lower())]
    close = family or difflib.get_close_matches(str(recipe), known, n=1)
    hint = f" Did you mean {' or '.join(close)}?" if close else ""
    raise ValueError(
        "`recipe` must be a name (see `permix list`), a `.toml` file, or a folder or list of "
        f"images.{hint} Received: {str(recipe)!r}"
    )
