"""Make a recipe for a folder of images, or a CSV file that lists images."""

from pathlib import Path
from typing import Any

from keras_permix.utils.tables import LISTS, SEPARATORS, parse_rows

IMAGE_SOURCES = ("csv", "folder")  # values of `data.source`
TRAIN = ("train", "training")  # names of folders, or values of the column "split"; any case
TEST = ("test", "testing")
VALIDATION = ("val", "valid", "validation", "dev")
TEST_FRACTION = 0.2  # per class, if there is no split


def is_images(path: Path) -> bool:
    """Return whether a path is a folder, or a file that can list images, by its ending."""
    return path.is_dir() or path.is_file() and path.suffix.lower() in LISTS


def images_recipe(path: Path) -> dict[str, Any]:
    """Make a recipe that fine-tunes a preset on a folder or list of images.

    A folder may have subfolders for training, validation and testing; a list names these parts in
    the column "split". Without a test part, the validation part is scored. Without parts, 20 % per
    class are held out, selected by file name.

    The column "label" of a list holds classes, several labels ("cat;red", or a list), or decimal
    numbers. Without it, all other columns are targets: numbers, or labels if they hold only 0 and 1
    and there are at least two.
    """
    name, model = path.resolve().name, {}
    if path.is_file():
        rows = parse_rows(path.read_bytes(), path)
        predicts, columns = _targets(rows)
        model = {} if predicts == "class" else {"predicts": predicts}
        data = dict(name=Path(name).stem, source="csv", train=path.as_posix())
        data |= {**_list_split(rows, path), **({"labels": columns} if columns else {})}
    else:
        data = dict(name=name, source="folder", path=path.as_posix(), **_folder_split(path))
    of_values = model.get("predicts") == "values"  # which a flip or a crop may change
    return dict(
        model=model,
        data=data | ({"random_crop": False} if of_values else {}),
        augmentation={} if of_values else dict(flip=True),
        optimizer=dict(name="adamw", learning_rate=1e-3, weight_decay=0.01),
        schedule=dict(name="cosine", warmup_epochs=1),
        batch_size=16,
        epochs=10,
    )


def images_to_score(path: Path) -> dict[str, Any]:
    """Return `data` of a recipe that scores the test part, or all images if there are no parts."""
    data = images_recipe(path)["data"]
    if data.pop("test_fraction", None) is None:
        return data
    return data | ({"splits": (".", ".")} if path.is_dir() else {"test": data["train"]})


def _folder_split(folder):
    found = {path.name for path in folder.iterdir() if path.is_dir() and path.name[0] != "."}
    found -= {"__MACOSX"}  # macOS zips
    parts = _parts(found)
    if parts is None and found and all(map(part_called, found)):
        raise ValueError(
            f"{folder} must contain a folder per class, or train/ and test/ or val/ with a folder "
            f"per class. Received: {sorted(found)} only"
        )
    return parts or {"test_fraction": TEST_FRACTION}


def _targets(rows):
    """Return what the rows of a list hold, and the columns of targets other than "label"."""
    given = [row["label"] for row in rows if "label" in row]
    if given:
        separated = any(mark in str(label) for mark in SEPARATORS for label in given)
        if separated or any(isinstance(label, list) for label in given):
            return "labels", []
        numbers = [_number(label) for label in given]
        decimal = None not in numbers and any(number % 1 for number in numbers)
        return ("values" if decimal else "class"), []
    columns = [name for name in (rows[0] if rows else ()) if name not in ("path", "split")]
    numbers = [_number(row.get(name)) for row in rows for name in columns]
    if not columns or numbers.count(None) == len(numbers):
        return "class", []
    flags = len(columns) > 1 and set(numbers) <= {0.0, 1.0}
    return ("labels" if flags else "values"), columns


def _number(value):
    try:
        return float(value)
    except (TypeError, ValueError):
        return None


def _list_split(rows, file):
    if not any("split" in row for row in rows):
        return {"test_fraction": TEST_FRACTION}
    said = {str(row.get("split")) for row in rows}
    parts = _parts(said)
    if parts is None or not all(map(part_called, said)):
        rule = "The column `split` must contain train, and test or val, and no other values"
        raise ValueError(f"{rule}. Received: {sorted(said)[:8]} in {file}")
    return {"test": file.as_posix(), **parts}


def part_called(name: str) -> bool:
    """Return whether a folder or a value of "split" is the name of a part."""
    return name.lower() in (*TRAIN, *TEST, *VALIDATION)


def _parts(names):
    """Return `splits` and `validation` of a recipe's `data`, or `None` without parts."""
    train, test, validation = parts = [
        [name for name in sorted(names) if name.lower() in words]
        for words in (TRAIN, TEST, VALIDATION)
    ]
    if not train or not (test or validation):
        return None
    for part in parts:
        if len(part) > 1:
            raise ValueError(f"Each part of the data must have one name. Received: {part}")
    found = {"splits": (*train, *(test or validation))}
    return {**found, "validation": validation[0]} if test and validation else found
