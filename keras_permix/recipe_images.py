"""The recipe that images of one's own stand for: a folder per class, or a CSV file of them."""

import csv
from pathlib import Path
from typing import Any

LIST = ".csv"
HELD_OUT = ("test", "val", "valid", "validation")  # what a folder beside `train` may be called
TEST_FRACTION = 0.2  # of each class, where nothing is held out already


def is_images(path: Path) -> bool:
    """Whether a path is a folder, or a list of files, which recipes are not."""
    return path.is_dir() or path.is_file() and path.suffix.lower() == LIST


def images_recipe(path: Path) -> dict[str, Any]:
    """How a preset is fine-tuned on a folder of images, or a list of them.

    Trained on is `train/`, and tested on the first of `test/`, `val/`, `valid/` and `validation/`
    that is there, others of these not at all; or on the rows of a list whose column "split" says
    so. Where there is no such folder or column, a fifth of each class is held out, which the names
    of the files decide.

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
    held_out = next((name for name in HELD_OUT if name in found), None)
    if held_out and "train" in found:
        return {"splits": ("train", held_out)}
    if found and found <= {"train", *HELD_OUT}:
        raise ValueError(
            "A folder of images must hold a folder per class; or train/ and one of "
            f"{', '.join(f'{name}/' for name in HELD_OUT)}, with these inside. Give the folder "
            "that holds the classes, or add the other part. "
            f"Received: {folder} with {sorted(found)} alone"
        )
    return {"test_fraction": TEST_FRACTION}


def _list_split(file):
    with open(file, encoding="utf-8-sig", errors="replace", newline="") as lines:
        rows = csv.DictReader(lines)
        if "split" not in (rows.fieldnames or ()):
            return {"test_fraction": TEST_FRACTION}
        said = {str(row["split"]) for row in rows}
    held_out = next((name for name in HELD_OUT if name in said), None)
    if held_out is None or "train" not in said or said - {"train", *HELD_OUT}:
        raise ValueError(
            "The column `split` of a list of images must say train, and one of "
            f"{', '.join(HELD_OUT)}, and nothing else. Received: {sorted(said)[:8]} in {file}"
        )
    return {"test": file.as_posix(), "splits": ("train", held_out)}
