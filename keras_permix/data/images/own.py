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
from keras_permix.data.files import part_names, read_lists, read_own
from keras_permix.data.images.decode import read_image
from keras_permix.data.images.folders import images_by_class
from keras_permix.data.images.records import FileRecords, RecordSource, ResizeCrop
from keras_permix.data.targets import check_unused, class_of, target_reader
from keras_permix.recipes.images import part_called
from keras_permix.utils.checks import check_labels
from keras_permix.utils.tables import shown


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
    labels: Sequence[str] | None = None,
    **how: Any,
) -> Dataset:
    """Load images from a folder per class.

    Images are read from `FOLDER/train/CLASS/…` and `FOLDER/test/CLASS/…`, at any depth. With
    `test_fraction`, they are read from `FOLDER/CLASS/…` and split. Other files are ignored. All
    images are decoded once to find unreadable ones, and again batch by batch, by `read_image`.

    Args:
        name: Str, name of the set.
        image_size: Int, side in pixels to which images are resized.
        data_dir: Folder that `path` is relative to. Default: the current folder.
        path: Path of the folder. Default: `name`.
        splits: Tuple of the sub-folders for training and testing.
        validation: Sub-folder for validation. Default: `None`, no validation part.
        test_fraction: Float between 0 and 1, share of each class for testing, instead of `splits`.
        split_seed: Int ≥ 0, seed of the split. The split depends on the file names; adding an image
            moves at most one other image. Default: 0.
        labels: Names of the classes, in the order of the sorted folders. Default: their names.
        **how: `channels` (3 for RGB, 1 for grayscale) and `seed` (int ≥ 0, of the random crops).
            `skip_unreadable` (whether to skip unreadable files with a warning). `random_crop`
            (whether training images are cropped at random) and `keep` (see `ResizeCrop`).
            `order` (names of the classes in another order than sorted; ignored with other names or
            `labels`).

    Returns:
        A `Dataset` of parts `(RecordSource, None)`.

    Raises:
        FileNotFoundError: If the folder does not exist.
        ValueError: If a class has no images or occurs only in testing, images cannot be read, or
            there are fewer than two classes. If `test_fraction` leaves a part of a class empty or
            conflicts with `splits`. If `labels` does not name each class, or names the folders in
            another order.

    Example:
        >>> from keras_permix.data import folder_images
        >>> pets = folder_images("pets", 64, test_fraction=0.2)  # doctest: +SKIP
        >>> pets.labels  # doctest: +SKIP
        ('cats', 'dogs')
    """
    folder = Path(data_dir or ".") / (path or name)
    if test_fraction is None:
        parts = [images_by_class(folder / str(name)) for name in part_names(splits, validation)]
    else:
        _check_undivided(test_fraction, splits, ("train", "test"), validation)
        parts = _divided(images_by_class(folder), folder, test_fraction, split_seed)
    return _dataset(name, parts, image_size, labels=labels, **how)


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
        name, image_size: As in `folder_images`.
        data_dir: Folder that `train` and `test` are relative to. Default: the current folder.
        train, test: Lists of images. With `test=None`, `train` is split by `test_fraction`.
        splits: Tuple of values in the column "split" for training and testing; `None`: all rows.
        validation: Value in the column "split" of the first file for validation. Default: `None`.
        test_fraction, split_seed, how: As in `folder_images`.
        predicts: "class"; "labels", several per image; or "values", numbers.
        labels: Names of the target columns, which hold numbers or, with "labels", 0 or 1.
            Default: the column "label" with the number, or with the labels that apply (a list, or
            words between separators). Must be `None` for classes.
        separator: String between labels. Default: ";" or "|". Must be `None` for classes.

    Returns:
        A `Dataset` of parts `(RecordSource, None)`. The labels are sorted, or those of `labels`.

    Raises:
        FileNotFoundError: If a list or an image does not exist.
        ValueError: If a row has no path or label, or as in `folder_images`. If an image has two
            labels, or is in two different parts (one list may be used for both).

    Example:
        >>> from keras_permix.data import listed_images
        >>> listed_images("birds", 64, train="birds.csv", test_fraction=0.2)  # doctest: +SKIP
    """
    folder = Path(data_dir or ".")
    if (test is None) == (test_fraction is None):
        raise ValueError(f"Set `test` or `test_fraction`. Received: {test=}, {test_fraction=}")
    if test is None:
        _check_undivided(test_fraction, splits, (None, None), validation)
    first, second, *others = part_names(splits, validation)
    lists = [(train, first)] if test is None else [(train, first), (test, second)]
    lists += [(train, other) for other in others]
    rows = read_lists(folder, lists, read_own)
    names, read = None, class_of
    if predicts == "class":
        check_unused(labels, separator)
    else:
        names, read = target_reader(rows[0], predicts, labels, separator)
    parts: Any = []
    seen: dict[str, Any] = {}
    for (file, split), part in zip(lists, rows, strict=True):
        parts.append([])
        for row in part:
            path, label = _listed(row, (folder / file).parent, read)
            here = (label, file, split)
            # Two paths may name one image.
            path, other = seen.setdefault(os.path.realpath(path), (path, here))
            if other != here:
                raise ValueError(
                    "An image must be in only one part, and have only one label. "
                    f"Received: {path} with label, file and split {other} and {here}"
                )
            parts[-1].append((path, label))
    if test is None:
        parts = _divided(parts[0], (folder / train).parent, test_fraction, split_seed)
    return _dataset(name, parts, image_size, names, **how)


def _dataset(
    name,
    parts,
    image_size,
    names=None,
    labels=None,
    channels=3,
    seed=0,
    random_crop=True,
    keep=0.875,
    skip_unreadable=False,
    order=None,
):
    """Return a data set of two or three parts, lists of pairs of a file and its class.

    With `names`, the names of the targets, the pairs hold targets instead of classes.
    """
    if names is None:
        _classes(name, parts)  # before all images are read
    parts = _readable(parts, channels, skip_unreadable)
    if names is None:
        classes, *others = _classes(name, parts)
        for found, aim in zip(others, ("test", "validate"), strict=False):
            warn_of_missing(name, classes, found, aim, stacklevel=3)
        given = check_labels(labels, len(classes))
        if given and sorted(given) == classes != [*given]:  # would exchange the classes
            rule = "`labels` must be sorted like the folders"
            raise ValueError(f"{rule}. Received: {labels=} for folders {classes}")
        if order and not given and sorted(order) == classes:
            classes = order
        number = {label: index for index, label in enumerate(classes)}
        parts = [sorted(part, key=lambda pair: pair[1]) for part in parts]
        parts = [[(path, number[y]) for path, y in part] for part in parts]
        names = given or tuple(classes)
    train, test, *watched = (
        (RecordSource(FileRecords(part, channels), ResizeCrop(image_size, cut, keep), seed), None)
        for part, cut in zip(parts, (random_crop, False, False), strict=False)
    )
    return Dataset(name, train, test, names, *watched)


def _classes(name, parts):
    """Return the sorted classes of each part; check that training has all."""
    classes, *others = found = [sorted({label for _, label in part}) for part in parts]
    for other in others:
        check_classes(name, classes, other)
    return found


def _readable(parts, channels, skip):
    """Drop unreadable files with a warning if `skip`, else raise an error that lists them."""

    def problem(path):
        try:
            read_image(path, channels)
        except FileNotFoundError:  # a wrong path, never skipped
            raise
        except (OSError, ValueError) as error:
            return str(error.__cause__ or error)
        return None

    paths = list(dict.fromkeys(path for part in parts for path, _ in part))
    with ThreadPoolExecutor() as threads:
        problems = dict(zip(paths, threads.map(problem, paths), strict=True))
    wrong = {path: why for path, why in problems.items() if why}
    if not wrong:
        return parts
    found = f"{len(wrong):,} of {len(paths):,} unreadable: {', '.join(map(str, wrong))}"
    if not skip or len(wrong) == len(paths):
        rule = "Images must be readable, or skipped by `skip_unreadable` (`--skip-unreadable`)"
        raise ValueError(f"{rule}. Received: {found} (the first: {next(iter(wrong.values()))})")
    warnings.warn(f"Unreadable images are skipped: {found}", stacklevel=4)
    return [[pair for pair in part if pair[0] not in wrong] for part in parts]


def _check_undivided(test_fraction, splits, usual, validation):
    """Check that `splits` and `validation` are not combined with `test_fraction`."""
    if tuple(splits) != usual or validation is not None:
        rule = "`test_fraction` must be None with `splits` or `validation`"
        found = f"{test_fraction=}, splits={tuple(splits)}, {validation=}"
        raise ValueError(f"{rule}. Received: {found}")


def _listed(row, folder, read):
    """Return the file of a row, and the class or the targets that `read` returns."""
    label = read(row)
    if not isinstance(row.get("path"), str) or not row["path"] or not label:
        raise ValueError(f"Every row must have a `path` and a `label`. Received: {shown(row)}")
    return folder / row["path"], label


def _divided(pairs, folder, test_fraction, seed):
    """Split each class, or all images with other targets, by a hash of the file names."""

    def chance(path):
        name = os.path.relpath(path, folder).replace(os.sep, "/")
        return hashlib.sha256(f"{seed}/{name}".encode(errors="surrogateescape")).digest()

    files = {}
    for path, label in pairs:
        group = label if isinstance(label, str) else ""
        files.setdefault(group, set()).add(path)
    if all(map(part_called, files)):
        rule = "`test_fraction` must be None if classes are named like parts"
        raise ValueError(f"{rule}. Received: {test_fraction=}, {sorted(files)}")
    chosen = set()
    for label, different in sorted(files.items()):
        count = round(test_fraction * len(different))
        if not 0 < count < len(different):
            rule = "`test_fraction` must leave at least one image per class for each part"
            found = f"{test_fraction=}, {len(different)} images of {label!r}"
            raise ValueError(f"{rule}. Received: {found}")
        chosen.update(sorted(different, key=chance)[:count])
    train, test = (
        [pair for pair in pairs if (pair[0] in chosen) is wanted] for wanted in (False, True)
    )
    return train, test
