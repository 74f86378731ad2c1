"""Load custom labeled images from a folder per class or from a list of files."""

import hashlib
import os
import warnings
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from keras_permix._typing import StrPath
from keras_permix.data.dataset import Dataset, check_classes, warn_of_missing
from keras_permix.data.files import read_parts
from keras_permix.data.images.decode import read_image
from keras_permix.data.images.records import RecordSource, ResizeCrop
from keras_permix.data.targets import target_reader
from keras_permix.recipes.images import part_called
from keras_permix.utils.tables import shown

SUFFIXES = (
    ".avif", ".bmp", ".gif", ".jfif", ".jp2", ".jpe", ".jpeg", ".jpg", ".pgm", ".png", ".ppm",
    ".tif", ".tiff", ".webp",
)  # fmt: skip


def folder_images(
    name: str,
    image_size: int,
    data_dir: StrPath | None = None,
    *,
    path: StrPath | None = None,
    splits: tuple[str, str] = ("train", "test"),
    validation: str | None = None,
    test_fraction: float | None = None,
    split_seed: int = 0,
    **how: Any,
) -> Dataset:
    """Load images from a folder per class.

    Images are read from `FOLDER/train/CLASS/…` and `FOLDER/test/CLASS/…`, at any depth. With
    `test_fraction`, they are read from `FOLDER/CLASS/…` and split. Images are decoded batch by
    batch by `read_image`. Other files are ignored.

    Args:
        name: Str, name of the set.
        image_size: Int, side in pixels to which images are resized.
        data_dir: Folder that `path` is relative to. Default: the current folder.
        path: Path of the folder. Default: `name`.
        splits: Tuple of the sub-folders for training and testing.
        validation: Sub-folder for validation. Default: `None`, no validation part.
        test_fraction: Float between 0 and 1, share of each class held out for testing. Default:
            `None`, use `splits`.
        split_seed: Int ≥ 0, seed of the split. The split depends on the file names; adding an image
            moves at most one other image. Default: 0.
        **how: `channels` (3 for RGB, 1 for grayscale) and `seed` (int ≥ 0, of the random crops).
            `skip_unreadable` (whether to skip unreadable files with a warning). `random_crop`
            (whether training images are cropped at random) and `keep` (see `ResizeCrop`).

    Returns:
        A `Dataset` of parts `(RecordSource, None)`. The labels are the sorted class folders.

    Raises:
        FileNotFoundError: If the folder does not exist.
        ValueError: If a class has no images, or images cannot be read. If there are fewer than two
            classes, or a class occurs only in testing. If `test_fraction` leaves a part of a class
            empty or conflicts with `splits`.

    Example:

    >>> from keras_permix.data import folder_images
    >>> pets = folder_images("pets", 64, test_fraction=0.2)  # doctest: +SKIP
    >>> pets.labels  # doctest: +SKIP
    ('cats', 'dogs')
    """
    folder = Path(data_dir or ".") / (path or name)
    if test_fraction is None:
        parts = [_files_by_class(folder / split) for split in _named(splits, validation)]
    else:
        _check_undivided(test_fraction, splits, ("train", "test"), validation)
        parts = _divided(_files_by_class(folder), folder, test_fraction, split_seed)
    return _dataset(name, parts, image_size, **how)


def listed_images(
    name: str,
    image_size: int,
    data_dir: StrPath | None = None,
    *,
    train: StrPath,
    test: StrPath | None = None,
    splits: tuple[str | None, str | None] = (None, None),
    validation: str | None = None,
    test_fraction: float | None = None,
    split_seed: int = 0,
    predicts: str = "class",
    labels: Sequence[str] | None = None,
    separator: str | None = None,
    **how: Any,
) -> Dataset:
    """Load images from a list in a CSV, TSV or JSON lines file.

    The column "path" holds the path of an image, relative to the list, and "label" its class. With
    `predicts`, a row holds several labels, or numbers.

    Args:
        name: Str, name of the set.
        image_size: Int, side in pixels to which images are resized.
        data_dir: Folder that `train` and `test` are relative to. Default: the current folder.
        train, test: Lists of the training and test images. With `test=None`, `train` is split by
            `test_fraction`.
        splits: Tuple of the values in the column "split" for training and testing. `None` selects
            all rows.
        validation: Value in the column "split" of the first file for validation. Default: `None`,
            no validation part.
        test_fraction, split_seed, how: As in `folder_images`.
        predicts: "class"; "labels", several per image; or "values", numbers.
        labels: Names of the target columns, which hold numbers or, with "labels", 0 or 1.
            Default: the column "label" with the number, or with the labels that apply (a list, or
            words between separators).
        separator: String between labels. Default: ";" or "|".

    Returns:
        A `Dataset` of parts `(RecordSource, None)`. The labels are sorted, or those of `labels`.

    Raises:
        FileNotFoundError: If a list or an image does not exist.
        ValueError: If a row has no path or label, an image has two labels or is in two parts, or as
            in `folder_images`.

    Example:

    >>> from keras_permix.data import listed_images
    >>> listed_images("birds", 64, train="birds.csv", test_fraction=0.2)  # doctest: +SKIP
    """
    folder = Path(data_dir or ".")
    if (test is None) == (test_fraction is None):
        raise ValueError(
            "A list of images requires a `test` list or a `test_fraction`. "
            f"Received: test={test!r}, test_fraction={test_fraction}"
        )
    lists = list(zip((train, test or train, train), _named(splits, validation), strict=False))
    if test is None:
        _check_undivided(test_fraction, splits, (None, None), validation)
        lists = lists[:1]
    rows = [_rows(name, data_dir, *listed) for listed in lists]
    names, read, targets = None, _class_of, None
    if predicts != "class":
        names, read = target_reader(rows[0], predicts, labels, separator)
    pairs = [_pairs(part, folder / file, read) for part, (file, _) in zip(rows, lists, strict=True)]
    if predicts != "class":  # one group of images
        targets = dict(pair for part in pairs for pair in part)
        pairs = [[(path, "") for path, _ in part] for part in pairs]
    parts = list(map(_by_label, pairs))
    if test is None:
        parts = _divided(parts[0], (folder / train).parent, test_fraction, split_seed)
    else:
        _check_apart(lists, parts)
    return _dataset(name, parts, image_size, names, targets, **how)


class FileRecords:
    """Hold image files and labels as records for `RecordSource`."""

    def __init__(self, files, channels):
        self.files, self.channels = files, channels
        self.labels = [label for _, label in files]

    def __len__(self):
        return len(self.files)

    def __getitem__(self, index):
        path, label = self.files[index]
        return {"image": read_image(path, self.channels), "label": label}


def _dataset(
    name,
    parts,
    image_size,
    names=None,
    targets=None,
    channels=3,
    seed=0,
    random_crop=True,
    keep=0.875,
    skip_unreadable=False,
):
    labels = sorted(parts[0])
    for part, aim in zip(parts[1:], ("test", "validate"), strict=False) if targets is None else ():
        check_classes(name, labels, part)
        warn_of_missing(name, labels, part, aim, stacklevel=3)
    parts = _readable(parts, channels, skip_unreadable)
    labels = sorted(parts[0])
    sources = (
        RecordSource(
            FileRecords(_targeted(part, labels, targets), channels),
            ResizeCrop(image_size, cut, keep),
            seed,
        )
        for part, cut in zip(parts, (random_crop, False, False), strict=False)
    )
    train, test, *watched = ((source, None) for source in sources)
    return Dataset(name, train, test, names or tuple(labels), *watched)


def _readable(parts, channels, skip):
    """Drop unreadable files with a warning if `skip`, else raise an error that lists them."""

    def problem(path):
        try:
            read_image(path, channels)
        except (OSError, ValueError) as error:
            return str(error.__cause__ or error)
        return None

    paths = list(dict.fromkeys(p for part in parts for files in part.values() for p in files))
    with ThreadPoolExecutor() as threads:
        problems = dict(zip(paths, threads.map(problem, paths), strict=True))
    wrong = [path for path in paths if problems[path]]
    if not wrong:
        return parts
    found = f"{len(wrong):,} of {len(paths):,} unreadable: {', '.join(map(str, wrong))}"
    if not skip or len(wrong) == len(paths):
        raise ValueError(
            "Images must be files that Pillow can read. Remove these files or, in training, skip "
            "them with `permix train --skip-unreadable`. "
            f"Received: {found} (the first: {problems[wrong[0]]})"
        )
    warnings.warn(f"Unreadable images are skipped: {found}", stacklevel=4)
    kept = (
        {label: [path for path in files if not problems[path]] for label, files in part.items()}
        for part in parts
    )
    return [{label: files for label, files in part.items() if files} for part in kept]


def _targeted(files_by_class, labels, targets):
    """Return pairs of a file and the number of its class, or its targets."""
    pairs = [(p, n) for n, label in enumerate(labels) for p in files_by_class.get(label, ())]
    return pairs if targets is None else [(path, targets[path]) for path, _ in pairs]


def _files_by_class(folder):
    if not folder.is_dir():
        raise FileNotFoundError(
            "Images must be in a folder per class, inside `train/` and `test/`, or inside one "
            "folder with `test_fraction`. The path is relative to `data_dir` (`--data-dir`) or the "
            f"current folder. Received: no folder {folder}"
        )
    classes = sorted(p for p in folder.iterdir() if p.is_dir() and not _hidden(p, folder))
    if not classes:
        raise ValueError(
            "Images must be in a folder per class, with the name of the class. "
            f"Received: {folder} without folders, with {len(images_in(folder))} images"
        )
    found = {path.name: images_in(path) for path in classes}
    if empty := [str(folder / name) for name, files in found.items() if not files]:
        raise ValueError(
            f"The folder of a class must contain images ({', '.join(SUFFIXES)}). "
            f"Received: none in {', '.join(empty[:8])}"
        )
    return found


def images_in(folder):
    """Return the paths of the images in a folder and its sub-folders, except hidden ones."""
    files = (path for path in folder.rglob("*") if path.suffix.lower() in SUFFIXES)
    return sorted(path for path in files if path.is_file() and not _hidden(path, folder))


def _hidden(path, folder):
    parts = path.relative_to(folder).parts
    return any(part.startswith(".") or part == "__MACOSX" for part in parts)  # macOS zips


def _check_undivided(test_fraction, splits, usual, validation):
    """Check that `splits` and `validation` are not combined with `test_fraction`."""
    if tuple(splits) != usual or validation is not None:
        raise ValueError(
            "`test_fraction` must be None if `splits` or `validation` name the parts. "
            f"Received: test_fraction={test_fraction}, splits={tuple(splits)}, "
            f"validation={validation!r}"
        )


def _named(splits, validation):
    """Return the names of the training, test and optional validation parts."""
    return (*splits, *([] if validation is None else [validation]))


def _rows(name, data_dir, file, split):
    """Return the rows of a list, or of one of its parts."""
    return read_parts(name, {}, data_dir, train=file, test=file, splits=(split, split))[0]


def _check_apart(lists, parts):
    """Check that no image is in two different parts."""
    seen = {}
    for listed, part in dict(zip(lists, parts, strict=True)).items():
        for path in (path for files in part.values() for path in files):
            other = seen.setdefault(os.path.normpath(path), listed)
            if other != listed:
                raise ValueError(
                    "An image must be in only one part: training, testing or validation. "
                    f"Received: {path}, in {_said(other)} and in {_said(listed)}"
                )


def _said(listed):
    file, split = listed
    return f"{file}" if split is None else f"{file} ({split})"


def _class_of(row):
    return "" if row.get("label") is None else str(row["label"]).strip()


def _pairs(rows, file, read):
    """Return a pair per row: its file, and the class or the targets that `read` returns."""
    found, labels = [], {}
    for row in rows:
        label = read(row)
        if not isinstance(row.get("path"), str) or not row["path"] or not label:
            raise ValueError(
                "A list of images must have a header with the columns `path` and `label`, and both "
                f"values in every row. Received: {shown(row)}"
            )
        path = file.parent / row["path"]
        if not path.is_file():
            raise FileNotFoundError(
                "The files in a list of images must exist. Paths are relative to the list. "
                f"Received: {path}, {shown(row)}"
            )
        if labels.setdefault(os.path.normpath(path), label) != label:
            raise ValueError(
                "An image must have only one label. "
                f"Received: {path} with {labels[os.path.normpath(path)]!r} and {label!r} in {file}"
            )
        found.append((path, label))
    return found


def _by_label(pairs):
    found = {}
    for path, label in pairs:
        found.setdefault(label, []).append(path)
    return found


def _divided(files_by_class, folder, test_fraction, seed):
    """Split each class by a hash of the file names."""

    def chance(path):
        name = os.path.relpath(path, folder).replace(os.sep, "/")
        return hashlib.sha256(f"{seed}/{name}".encode(errors="surrogateescape")).digest()

    if not 0 < test_fraction < 1:
        raise ValueError(
            f"`test_fraction` must be between 0 and 1. Received: test_fraction={test_fraction}"
        )
    if all(map(part_called, files_by_class)):
        raise ValueError(
            "`test_fraction` must be None if folders or labels are named like parts. "
            f"Received: test_fraction={test_fraction}, {sorted(files_by_class)}"
        )
    train, test = {}, {}
    for label, files in sorted(files_by_class.items()):
        different = sorted({Path(os.path.normpath(path)) for path in files}, key=chance)
        count = round(test_fraction * len(different))
        if not 0 < count < len(different):
            raise ValueError(
                "`test_fraction` must leave at least one image per class for training and testing. "
                f"Received: test_fraction={test_fraction}, {len(different)} images of {label!r}"
            )
        chosen = set(different[:count])
        test[label], train[label] = (
            [path for path in files if (Path(os.path.normpath(path)) in chosen) is wanted]
            for wanted in (True, False)
        )
    return train, test
