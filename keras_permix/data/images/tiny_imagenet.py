"""Read Tiny-ImageNet from its folder of 120,000 small JPEG files."""

from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from keras_permix.data.cached import cached_arrays
from keras_permix.data.images.decode import read_image

FOLDER = "tiny-imagenet-200"
SIZE = 64
DECODED = "1"  # increase it if images are decoded differently


def read_tiny_imagenet(folder):
    """Read the training and the validation images; the labels of the test images are not public.

    The images are decoded once and memory-mapped from a cache, as long as the names and sizes of
    the files stay the same. The results are two parts `(images, labels)`, and the names of the
    classes in the order of `wnids.txt`, sorted. A name is the first word in `words.txt`. Equal
    names get the name of the folder, as in "crane (n02012849)".
    """
    wnids = sorted(line.strip() for line in _lines(folder / "wnids.txt") if line.strip())
    words = dict(line.split("\t", 1) for line in _lines(folder / "words.txt") if "\t" in line)
    train = [
        (path, label)
        for label, wnid in enumerate(wnids)
        for path in sorted((folder / "train" / wnid / "images").glob("*.JPEG"))
    ]
    rows = (line.split("\t") for line in _lines(folder / "val/val_annotations.txt"))
    tests = [(folder / "val/images" / row[0], wnids.index(row[1])) for row in rows]
    parts = {"train": train, "val": tests}
    if empty := set(range(len(wnids))) - {label for _, label in train}:
        raise ValueError(
            "Each class of `wnids.txt` must have images in `train/WNID/images/`. "
            f"Received: {folder} without images of {[wnids[n] for n in sorted(empty)][:8]}"
        )
    content = f"{DECODED}\n" + "".join(
        f"{label} {path.name} {path.stat().st_size}\n"
        for files in parts.values()
        for path, label in files
    )
    images = cached_arrays(
        "tiny_imagenet", content.encode(), lambda: {k: _decode(v) for k, v in parts.items()}
    )
    names = [words[wnid].split(",")[0].strip() for wnid in wnids]
    count = Counter(names)
    labels = tuple(
        name if count[name] == 1 else f"{name} ({wnid})"
        for name, wnid in zip(names, wnids, strict=True)
    )
    return *((images[k], [label for _, label in files]) for k, files in parts.items()), labels


def _decode(files):
    images = np.empty((len(files), SIZE, SIZE, 3), "uint8")
    with ThreadPoolExecutor() as pool:
        for index, image in enumerate(pool.map(read_image, [path for path, _ in files])):
            images[index] = image
    return images


def _lines(path):
    return path.read_text(encoding="utf-8").splitlines()
