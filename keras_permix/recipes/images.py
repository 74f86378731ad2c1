"""The recipe that images of one's own stand for: a folder per class, or a list of them."""

from pathlib import Path
from typing import Any

from keras_permix.utils.tables import LISTS, parse_rows

IMAGE_SOURCES = ("csv", "folder")  # of a recipe's `data`, for a list and for a folder
TRAIN = ("train", "training")  # what a folder may be called, or the rows of a list, in any case
TEST = ("test", "testing")
VALIDATION = ("val", "valid", "validation", "dev")
TEST_FRACTION = 0.2  # of each class, where nothing is held out already


def is_images(path: Path) -> bool:
    """Whether a path is a folder, or a list of files, which recipes are not."""
    return path.is_dir() or path.is_file() and path.suffix.lower() in LISTS


def images_recipe(path: Path) -> dict[str, Any]:
    """How a preset is fine-tuned on a folder of images, or a list of them.

    Trained on is `train/` (or `training/`), and tested on `test/` (or `testing/`); training is
    watched on `val/` (or `valid/`, `validation/`, `dev/`), which is tested on where there is no
    other; capitals do not matter. The rows of a list say it in a column "split". Where there is no
    such folder or column, a fifth of each class is held out, which the names of the files decide.

    Args:
        path: A folder as `keras_permix.data.folder_images` reads it, or a list as `listed_images`.

    Returns:
        Values of a recipe, without `init`.

    Raises:
        ValueError: for a folder with a part for training or for testing alone, or a list whose
            column "split" says something else.
    """
    name = path.resolve().name
    if path.is_file():
        data = dict(name=Path(name).stem, source="csv", train=path.as_posix(), **_list_split(path))
    else:
        data = dict(name=name, source="folder", path=path.as_posix(), **_folder_split(path))
    return dict(
        data=data,
        augmentation=dict(flip=True),
        optimizer=dict(name="adamw", learning_rate=1e-3, weight_decay=0.01),
        schedule=dict(name="cosine", warmup_epochs=1),
        batch_size=16,
        epochs=10,
    )


def check_start(path: Path) -> None:
    """Raise where images, or a list, are to be trained on, and nothing says which model.

    Raises:
        ValueError: for a folder or a list of files; other lists than of images need a recipe.
    """
    if not is_images(path):
        return
    rows = parse_rows(path.read_bytes(), path) if path.is_file() else []
    if rows and "path" not in rows[0]:
        raise ValueError(
            "A list to train on without a recipe must be one of images, with columns `path` and "
            "`label`; texts and molecules need a recipe that names it (docs/guides/fine_tune.md). "
            f"Received: {path} with {', '.join(rows[0])}"
        )
    raise ValueError(
        "To train on images of your own, name a preset to start from as `init` "
        f"(`permix train {path} --init cspvit/cifar10_small`). Received: {path}, init=None"
    )


def images_to_score(path: Path) -> dict[str, Any]:
    """Images of one's own as a recipe's `data`, of which the testing part is scored.

    That is what `images_recipe` holds out by a folder or a column, and where there is none, all.

    Args:
        path: As for `images_recipe`.

    Returns:
        A dict as the recipe's `data`.
    """
    data = images_recipe(path)["data"]
    if data.pop("test_fraction", None) is None:
        return data
    return data | ({"splits": (".", ".")} if path.is_dir() else {"test": data["train"]})


def _folder_split(folder):
    found = {path.name for path in folder.iterdir() if path.is_dir() and path.name[0] != "."}
    parts = _parts(found)
    if parts is None and found and all(part_called(name) for name in found):
        raise ValueError(
            "A folder of images must hold a folder per class; or train/ and one of "
            f"{', '.join(f'{name}/' for name in (*TEST, *VALIDATION))}, with these inside. Give "
            "the folder that holds the classes, or add the other part. "
            f"Received: {folder} with {sorted(found)} alone"
        )
    return parts or {"test_fraction": TEST_FRACTION}


def _list_split(file):
    rows = parse_rows(file.read_bytes(), file)
    if not any("split" in row for row in rows):
        return {"test_fraction": TEST_FRACTION}
    said = {str(row.get("split")) for row in rows}
    parts = _parts(said)
    if parts is None or not all(part_called(name) for name in said):
        raise ValueError(
            "The column `split` of a list of images must say train, and one of "
            f"{', '.join((*TEST, *VALIDATION))}, and nothing else. "
            f"Received: {sorted(said)[:8]} in {file}"
        )
    return {"test": file.as_posix(), **parts}


def part_called(name: str) -> tuple[str, ...] | None:
    """By which words the part goes that a folder or the rows of a list are called after, if any."""
    return next((words for words in (TRAIN, TEST, VALIDATION) if name.lower() in words), None)


def _parts(names):
    """What parts are called that can be trained and tested on, as `data` says it, or `None`."""
    found: dict[Any, list[str]] = {}
    for name in sorted(names):
        found.setdefault(part_called(name), []).append(name)
    if TRAIN not in found or TEST not in found and VALIDATION not in found:
        return None
    for words in (TRAIN, TEST, VALIDATION):
        if len(found.get(words, [])) > 1:
            raise ValueError(
                "Each part, for training, testing and validation, must have one name. "
                f"Received: {' and '.join(map(repr, found[words]))}"
            )
    train, test, validation = (found.get(words, [None])[0] for words in (TRAIN, TEST, VALIDATION))
    if test is None or validation is None:
        return {"splits": (train, test or validation)}
    return {"splits": (train, test), "validation": validation}
