"""Labeled images of one's own: a folder per class, or a list of files with their labels."""

import hashlib
import os
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from keras_permix._typing import StrPath
from keras_permix.data.dataset import Dataset, check_classes, warn_of_missing
from keras_permix.data.files import read_parts, read_rows
from keras_permix.data.images.decode import read_image
from keras_permix.data.images.records import RecordSource
from keras_permix.data.images.resize import ResizeCrop
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
    """Give the images of a folder as a `Dataset`; each class has a folder of its own.

    Images are found in `FOLDER/train/CLASS/…` and `FOLDER/test/CLASS/…`, at any depth; or in
    `FOLDER/CLASS/…` with a `test_fraction`, the part of each class that is kept for testing. They
    are read batch by batch, of any size, by `read_image`; other files are passed over.

    Args:
        name: What the set is called.
        image_size: Side of the squares that images are brought to, in pixels.
        data_dir: Folder that `path` is relative to; `None`: the current one.
        path: The folder. `None`: the one that is called as the set is.
        splits: The sub-folders for training and testing.
        validation: One more that training is watched on; `None`: it is watched on the test.
        test_fraction: A number between 0 and 1 where there are no such sub-folders.
        split_seed: Integer ≥ 0; the same one keeps the same images for testing. An image's name
            decides, so that one more image leaves the others where they are, but for one at most.
        **how: `channels` (3 for RGB, 1 for gray), `seed` (integer ≥ 0, of the random crops),
            `skip_unreadable` (whether to leave out files that cannot be read, with a warning),
            `random_crop` (whether training images are cut at random; test images are cut in the
            middle) and `keep` (part of the shorter side that the middle square keeps).

    Returns:
        A `Dataset` of parts `(RecordSource, None)`; its labels are the classes' folders, sorted.

    Raises:
        FileNotFoundError: for a folder that is not there.
        ValueError: for a class without images, images that cannot be read, fewer than two classes,
            one for testing alone, or a `test_fraction` that leaves a class without an
            image, or is given where there are parts.

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
    **how: Any,
) -> Dataset:
    """Give the images that a CSV file lists as a `Dataset`.

    A row says under "path" where an image lies, relative to the file, and under "label" its class,
    of which blanks around it are no part. The file may as well be one of JSON lines or of
    tab-separated values.

    Args:
        name: What the set is called.
        image_size: Side of the squares that images are brought to, in pixels.
        data_dir: Folder that `train` and `test` are relative to; `None`: the current one.
        train, test: The files of either part. `test=None`: `train` is divided by `test_fraction`.
        splits: What the rows of either part say under "split"; `None`: all rows of the file.
        validation: What rows of the first file say that training is watched on; `None`: there are
            none, and it is watched on the test.
        test_fraction, split_seed, how: As in `folder_images`.

    Returns:
        A `Dataset` of parts `(RecordSource, None)`; its labels are those of the rows, sorted.

    Raises:
        FileNotFoundError: for a file that is not there, an image included.
        ValueError: for a row without path or label, an image that has two labels, or lies in two
            parts that are not the same; else as in `folder_images`.

    Example:

    >>> from keras_permix.data import listed_images
    >>> listed_images("birds", 64, train="birds.csv", test_fraction=0.2)  # doctest: +SKIP
    """
    folder = Path(data_dir or ".")
    if (test is None) == (test_fraction is None):
        raise ValueError(
            "A list of images must come with a `test` list or a `test_fraction`. "
            f"Received: test={test!r}, test_fraction={test_fraction}"
        )
    if test is None:
        _check_undivided(test_fraction, splits, (None, None), validation)
        files = _by_label(read_rows(folder / train), folder / train)
        parts = _divided(files, (folder / train).parent, test_fraction, split_seed)
    else:
        lists = list(zip((train, test, train), _named(splits, validation), strict=False))
        parts = _listed(name, data_dir, lists)
        _check_apart(lists, parts)
    return _dataset(name, parts, image_size, **how)


class FileRecords:
    """Image files and their labels as records for `RecordSource`."""

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
    channels=3,
    seed=0,
    random_crop=True,
    keep=0.875,
    skip_unreadable=False,
):
    labels = sorted(parts[0])
    for part, aim in zip(parts[1:], ("test", "validate"), strict=False):
        check_classes(name, labels, part)
        warn_of_missing(name, labels, part, aim, stacklevel=3)
    parts = _readable(parts, channels, skip_unreadable)
    labels = sorted(parts[0])
    sources = (
        RecordSource(_records(part, labels, channels), ResizeCrop(image_size, cut, keep), seed)
        for part, cut in zip(parts, (random_crop, False, False), strict=False)
    )
    train, test, *watched = ((source, None) for source in sources)
    return Dataset(name, train, test, tuple(labels), *watched)


def _readable(parts, channels, skip):
    """The parts without unreadable files; an error that names all of them unless `skip`."""

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
            "Images must be whole files that Pillow can read. Remove these files, or train without "
            f"them by `--skip-unreadable`. Received: {found} (the first: {problems[wrong[0]]})"
        )
    warnings.warn(f"Unreadable images are left out: {found}", stacklevel=4)
    kept = (
        {label: [path for path in files if not problems[path]] for label, files in part.items()}
        for part in parts
    )
    return [{label: files for label, files in part.items() if files} for part in kept]


def _records(files_by_class, labels, channels):
    return FileRecords(
        [(p, n) for n, label in enumerate(labels) for p in files_by_class.get(label, ())], channels
    )


def _files_by_class(folder):
    if not folder.is_dir():
        raise FileNotFoundError(
            "Images lie in a folder per class, all in `train/` and `test/`, or with a "
            "`test_fraction` in one folder, which is below `data_dir` (`--data-dir`), or here. "
            f"Received: no folder {folder}"
        )
    classes = sorted(p for p in folder.iterdir() if p.is_dir() and not p.name.startswith("."))
    if not classes:
        raise ValueError(
            "Images lie in a folder per class, and its name is that of the class. "
            f"Received: {folder} without a folder, and with {len(images_in(folder))} images"
        )
    found = {path.name: images_in(path) for path in classes}
    if empty := [str(folder / name) for name, files in found.items() if not files]:
        raise ValueError(
            f"The folder of a class must hold images ({', '.join(SUFFIXES)}). "
            f"Received: none in {', '.join(empty[:8])}"
        )
    return found


def images_in(folder):
    """Return the paths of the images in a folder and its sub-folders, without hidden ones."""
    files = (path for path in folder.rglob("*") if path.suffix.lower() in SUFFIXES)
    return sorted(path for path in files if path.is_file() and not _hidden(path, folder))


def _hidden(path, folder):
    return any(part.startswith(".") for part in path.relative_to(folder).parts)


def _check_undivided(test_fraction, splits, usual, validation):
    """Check that nothing is said of parts where a fraction of all is held out."""
    if tuple(splits) != usual or validation is not None:
        raise ValueError(
            "`test_fraction` must be None where `splits` or `validation` say what the parts are. "
            f"Received: test_fraction={test_fraction}, splits={tuple(splits)}, "
            f"validation={validation!r}"
        )


def _named(splits, validation):
    """What the parts are called: for training, testing, and perhaps validation."""
    return (*splits, *([] if validation is None else [validation]))


def _listed(name, data_dir, lists):
    """The files of each part by their label; `lists` has a file and what its rows say, for each."""
    found = []
    for file, split in lists:
        rows, _ = read_parts(name, {}, data_dir, train=file, test=file, splits=(split, split))
        found.append(_by_label(rows, Path(data_dir or ".") / file))
    return found


def _check_apart(lists, parts):
    """Check that what is tested on was not trained on, unless both are the same part."""
    seen = {}
    for listed, part in dict(zip(lists, parts, strict=True)).items():
        for path in (path for files in part.values() for path in files):
            other = seen.setdefault(os.path.normpath(path), listed)
            if other != listed:
                raise ValueError(
                    "An image of a list must be in one part, for training, testing or validation. "
                    f"Received: {path}, in {_said(other)} and in {_said(listed)}"
                )


def _said(listed):
    file, split = listed
    return f"{file}" if split is None else f"{file} ({split})"


def _by_label(rows, file):
    found, labels = {}, {}
    for row in rows:
        label = "" if row.get("label") is None else str(row["label"]).strip()
        if not isinstance(row.get("path"), str) or not row["path"] or not label:
            raise ValueError(
                "A list of images must have the columns `path` and `label`, named in its first "
                f"line, and both in every row. Received: {shown(row)}"
            )
        path = file.parent / row["path"]
        if not path.is_file():
            raise FileNotFoundError(
                "A list of images must name files that exist, relative to itself. "
                f"Received: {path}, {shown(row)}"
            )
        if labels.setdefault(os.path.normpath(path), label) != label:
            raise ValueError(
                "An image of a list must have one label. "
                f"Received: {path} with {labels[os.path.normpath(path)]!r} and {label!r} in {file}"
            )
        found.setdefault(label, []).append(path)
    return found


def _divided(files_by_class, folder, test_fraction, seed):
    """Two parts, each with its share of each class: which, the names of the files decide."""

    def chance(path):
        name = os.path.relpath(path, folder).replace(os.sep, "/")
        return hashlib.sha256(f"{seed}/{name}".encode(errors="surrogateescape")).digest()

    if not 0 < test_fraction < 1:
        raise ValueError(
            f"`test_fraction` must be between 0 and 1. Received: test_fraction={test_fraction}"
        )
    if all(map(part_called, files_by_class)):
        raise ValueError(
            "`test_fraction` must be None where folders or labels are called after parts. "
            f"Received: test_fraction={test_fraction}, {sorted(files_by_class)}"
        )
    train, test = {}, {}
    for label, files in sorted(files_by_class.items()):
        different = sorted({Path(os.path.normpath(path)) for path in files}, key=chance)
        count = round(test_fraction * len(different))
        if not 0 < count < len(different):
            raise ValueError(
                "`test_fraction` must leave each class an image for training and one for testing. "
                f"Received: test_fraction={test_fraction}, {len(different)} images of {label!r}"
            )
        chosen = set(different[:count])
        test[label], train[label] = (
            [path for path in files if (Path(os.path.normpath(path)) in chosen) is wanted]
            for wanted in (True, False)
        )
    return train, test
