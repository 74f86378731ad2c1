"""Where presets and recipes lie that the package knows: names and folders, without Keras."""

from pathlib import Path

from keras_permix.recipe import list_recipes

CONFIG_FILE = "config.json"
METADATA_FILE = "metadata.json"
WEIGHTS_FILE = "model.weights.h5"


def weights_folders() -> tuple[Path, Path]:
    """Folders of presets: beside a checkout's package, and inside an installed one."""
    package = Path(__file__).resolve().parent
    return package.parent / "weights", package / "weights"


def known_presets() -> dict[str, Path | None]:
    """Presets in `weights/`, and recipes.

    Returns:
        A dict from names `class/preset` to folders; `None` where there is only a recipe.
    """
    folders = dict.fromkeys(list_recipes())
    for weights in weights_folders():
        for class_folder in weights.glob("[!.]*/"):
            for path in class_folder.glob(f"[!.]*/{METADATA_FILE}"):
                folders[f"{class_folder.name}/{path.parent.name}"] = path.parent
    return dict(sorted(folders.items()))
