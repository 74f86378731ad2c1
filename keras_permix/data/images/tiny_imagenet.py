"""Tiny-ImageNet in the folder that its authors give away: 120,000 small JPEG files."""

import os
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

from keras_permix.data.cached import cached_arrays
from keras_permix.data.images.decode import read_image

FOLDER = "tiny-imagenet-200"
SIZE = 64
DECODED = "1"  # counts changes of how images are decoded
HOW = "Unpack `tiny-imagenet-200.zip` again, and leave its folders as they are."


def read_tiny_imagenet(folder):
    """Read the training and the validation images; those for testing have no public labels.

    The images are decoded once, on all cores, and then memory-mapped from a cache, which is that
    of these very files: their names and sizes are compared. See `cached_arrays`.

    Args:
        folder: The folder `tiny-imagenet-200`.

    Returns:
        Training and validation part, `(images, labels)` each, and the names of the classes: the
        first word of `words.txt` for each folder of `train/`, in the order of these; where two
        have it in common, with the folder's name, as "crane (n02012849)".

    Raises:
        FileNotFoundError: for a folder without one of its files.
        ValueError: for a class without images, a file that is damaged or of another form.
    """
    wnids = sorted(line.strip() for line in _lines(folder, "wnids.txt") if line.strip())
    names = _names(wnids, _lines(folder, "words.txt"))
    parts = {"train": _train(folder, wnids), "val": _val(folder, wnids)}
    content = f"{DECODED}\n" + "".join(
        f"{label} {path.name} {path.stat().st_size}\n"
        for files in parts.values()
        for path, label in files
    )
    images = cached_arrays(
        "tiny_imagenet", content.encode(), lambda: {k: _decoded(v) for k, v in parts.items()}
    )
    train, val = ((images[k], [label for _, label in files]) for k, files in parts.items())
    return train, val, names


def _train(folder, wnids):
    """Files and labels of `train/WNID/images/`."""
    files = [(path, n) for n, w in enumerate(wnids) for path in _jpegs(folder / "train" / w)]
    missing = sorted(set(range(len(wnids))) - {label for _, label in files})
    if missing or not wnids:
        raise ValueError(
            f"Each class of `wnids.txt` must have images in `train/WNID/images/`. {HOW} Received: "
            f"none in {folder}/train/{wnids[missing[0]] if missing else ''}"
        )
    return files


def _jpegs(folder):
    return sorted((folder / "images").glob("*.JPEG"))


def _val(folder, wnids):
    """Files and labels as `val/val_annotations.txt` lists them."""
    rows = [line.split("\t") for line in _lines(folder, "val/val_annotations.txt") if line.strip()]
    if not rows or not all(len(row) > 1 and row[1] in wnids for row in rows):
        wrong = next((row for row in rows if len(row) < 2 or row[1] not in wnids), "no line")
        raise ValueError(
            "A line of `val_annotations.txt` must say a file and its class, one of `wnids.txt`. "
            f"{HOW} Received: {wrong} in {folder}/val/val_annotations.txt"
        )
    files = [(folder / "val/images" / row[0], wnids.index(row[1])) for row in rows]
    for path, _ in files:
        if not path.is_file():
            raise FileNotFoundError(
                "`val/images/` must hold each file of `val_annotations.txt`. "
                f"{HOW} Received: no {path}"
            )
    return files


def _decoded(files):
    images = np.empty((len(files), SIZE, SIZE, 3), "uint8")

    def decode(index):
        path, _ = files[index]
        image = read_image(path)
        if image.shape != images.shape[1:]:
            raise ValueError(
                f"An image of Tiny-ImageNet must be of {SIZE} x {SIZE} pixels. {HOW} "
                f"Received: {path} of {image.shape[1]} x {image.shape[0]}"
            )
        images[index] = image

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for _ in pool.map(decode, range(len(files))):
            pass
    return images


def _names(wnids, lines):
    words = dict(line.split("\t", 1) for line in lines if "\t" in line)
    absent = [wnid for wnid in wnids if wnid not in words]
    if absent:
        raise ValueError(
            f"`words.txt` must name each class of `wnids.txt`. {HOW} "
            f"Received: none for {absent[:8]}"
        )
    names = [words[wnid].split(",")[0].strip() for wnid in wnids]
    count = Counter(names)
    return tuple(
        name if count[name] == 1 else f"{name} ({wnid})"
        for name, wnid in zip(names, wnids, strict=True)
    )


def _lines(folder, name):
    path = Path(folder) / name
    if not path.is_file():
        raise FileNotFoundError(
            f"The folder of Tiny-ImageNet must hold `{name}`. {HOW} Received: {folder} without it"
        )
    return path.read_text(encoding="utf-8").splitlines()
