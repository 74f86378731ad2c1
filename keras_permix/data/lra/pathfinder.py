"""Generate or read Pathfinder and Path-X: decide if two dots are the ends of one dashed path."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from keras_permix._typing import StrPath
from keras_permix.data.cached import cached_arrays, draw_rounds
from keras_permix.data.dataset import Dataset, split_source
from keras_permix.data.files import read_row
from keras_permix.data.images.records import FileRecords, RecordSource
from keras_permix.data.lra.pathfinder_paths import Rules, draw_paths, draw_pixels
from keras_permix.utils.checks import check_integer, plain
from keras_permix.utils.tables import Row

PATHFINDER_LABELS = ("two paths", "one path")
CLASSES = {"0": 0, "1": 1}
AT_ONCE = 2**18  # pixels of pictures drawn at once
NAMES = (
    "dash_length", "dash_thickness", "gaps", "dot_radius", "seed_distance", "distractors",
    "contrast",
)  # fmt: skip
# Side of the pictures -> defaults of these, those of the Long Range Arena.
SIZES: dict[int, tuple[Any, ...]] = {
    32: (2, 0.5, 1, 1.5, 7, 5, 0.75),
    64: (5, 1, 1, 2.5, 12, 4, 0.8),
    128: (5, 1.5, (2, 3), 3, 20, 7, 0.9),
    256: (5, 2, 3, 5, 27, 6, 1.0),
}


def generated_pathfinder(
    image_size: int = 32,
    *,
    train: int = 160_000,
    validation: int = 20_000,
    test: int = 20_000,
    contour_length: int = 14,
    distractors: int | None = None,
    distractor_length: int | None = None,
    dash_length: float | None = None,
    dash_thickness: float | None = None,
    gap: float | Sequence[float] | None = None,
    dot_radius: float | None = None,
    seed_distance: float | None = None,
    contrast: float | None = None,
    bend: float = 0.4,
    seed: int = 0,
) -> Dataset:
    """Generate pictures for Pathfinder (32 or 64 pixels) and Path-X (128 or 256).

    A picture shows two long paths of dashes, some short ones, and two dots. In class 1, the dots
    are the two ends of one long path. In class 0, they are the start of one path and the end of the
    other. Both classes are equally likely. The distance between paths exceeds the gaps.

    The rules are those of the Long Range Arena, except the bends of paths. Accuracies are therefore
    not comparable with published ones. The same arguments give the same pictures on any number of
    processors. Sets of 10,000 or more are cached in the folder of Keras (`KERAS_HOME`).

    Args:
        image_size: Int, side of the pictures in pixels. Default: 32. Sizes other than 32, 64, 128
            and 256 use the defaults of the next smaller one of these, or of 32.
        train, validation, test: Int, number of pictures. Default: 160,000, 20,000, 20,000.
        contour_length: Int, dashes of a long path (9 or 14 in the Long Range Arena). Default: 14.
        distractors: Int, largest number of short paths. Default for the four sizes: 5, 4, 7, 6.
        distractor_length: Int, dashes of a short path. Default: a third of `contour_length`.
        dash_length: Float, in pixels. Default: 2, 5, 5, 5.
        dash_thickness: Float, in pixels. Default: 0.5, 1, 1.5, 2.
        gap: Float, pixels between two dashes of a path, or a list from which each picture draws
            one. Default: 1, 1, (2, 3), 3.
        dot_radius: Float, in pixels. Default: 1.5, 2.5, 3, 5.
        seed_distance: Float, pixels between the starts of the long paths. Default: 7, 12, 20, 27.
        contrast: Float, brightness of dashes relative to dots. Default: 0.75, 0.8, 0.9, 1.
        bend: Float, standard deviation of the angle between dashes, in radians. Default: 0.4.
        seed: Int ≥ 0. Default: 0.

    Returns:
        A `Dataset` of parts `(images, labels)`, with a `validation` part: uint8
        `(pictures, image_size, image_size, 1)`, 0–255, and int32 `(pictures,)`.

    Raises:
        ValueError: If `contrast` or a length is out of range, or no picture has room for the long
            paths.

    Example:
        >>> from keras_permix.data import generated_pathfinder
        >>> sizes = dict(train=8, validation=2, test=2, contour_length=4, distractors=2)
        >>> generated_pathfinder(32, **sizes).train[0].shape
        (8, 32, 32, 1)

    Reference: [Linsley et al., 2018](https://arxiv.org/abs/1805.08315),
    [Kim et al., 2020](https://openreview.net/forum?id=HJxrVA4FDS), and the released code. Numbers
    are those of [Tay et al., "Long Range Arena", 2020](https://arxiv.org/abs/2011.04006).
    """
    given = {"train": (train, 1), "validation": (validation, 0), "test": (test, 1)}
    counts = [check_integer(name, count, least) for name, (count, least) in given.items()]
    sizes = (
        dash_length, dash_thickness, gap, dot_radius, seed_distance, distractors, contrast
    )  # fmt: skip
    usual = SIZES[max([size for size in SIZES if size <= image_size], default=32)]
    chosen: dict[str, Any] = {
        name: default if value is None else plain(value)
        for name, value, default in zip(NAMES, sizes, usual, strict=True)
    }
    gaps = chosen.pop("gaps")
    if distractor_length is None:
        distractor_length = max(1, contour_length // 3)
    rules = Rules(
        image_size=image_size,
        contour_length=check_integer("contour_length", contour_length),
        distractor_length=check_integer("distractor_length", distractor_length),
        gaps=tuple(gaps) if isinstance(gaps, list | tuple) else (gaps,),
        bend=bend,
        **chosen,
    )
    if not 0 < rules.contrast <= 1:
        raise ValueError(f"`contrast` must be in (0, 1]. Received: {contrast=}")
    total = sum(counts)
    parameters = {"version": 1, "pictures": total, "seed": seed, **rules._asdict()}
    content = json.dumps(plain(parameters), sort_keys=True).encode()
    made = cached_arrays("pathfinder", content, lambda: _make(total, seed, rules), count=total)
    parts = split_source((made["images"], made["labels"]), *counts)
    return Dataset("pathfinder", parts[0], parts[2], PATHFINDER_LABELS, parts[1])


def load_pathfinder(
    image_size: int = 32,
    data_dir: StrPath | None = None,
    *,
    path: StrPath | None = None,
    split_seed: int = 0,
) -> Dataset:
    """Load Pathfinder or Path-X from the folders of the Long Range Arena.

    A folder holds grayscale images `imgs/N/sample_M.png`, and for each N a text `metadata/N.npy`. A
    line of it holds the folder of an image, its name, a number and the class. Images are decoded
    batch by batch. Empty files are skipped, as in the Long Range Arena.

    Args:
        image_size: Int, side of the pictures in pixels: 32, 64, 128 or 256. Default: 32.
        data_dir: Folder that `path` is relative to. Default: `None`, the current folder.
        path: Path of the folder. Default: `pathfinder32/curv_contour_length_14`, with the
            `image_size`. `curv_contour_length_9` and `curv_baseline` are easier.
        split_seed: Int ≥ 0, seed of the split: 10 % for validation and 10 % for testing. The
            split of the Long Range Arena has these sizes, but is not public. Default: 0.

    Returns:
        A `Dataset` of parts `(RecordSource, None)`, with a `validation` part.

    Raises:
        FileNotFoundError: If an image does not exist, or there are fewer than three images.

    Example:
        >>> from keras_permix.data import load_pathfinder
        >>> data = load_pathfinder(32, path="pathfinder32/curv_baseline")  # doctest: +SKIP
        >>> data.train[0].read([0])[0].shape  # doctest: +SKIP
        (1, 32, 32, 1)

    Reference: [Tay et al., "Long Range Arena", 2020](https://arxiv.org/abs/2011.04006).
    """
    folder = Path(data_dir or ".") / (path or f"pathfinder{image_size}/curv_contour_length_14")
    texts = sorted((folder / "metadata").glob("*.npy"))
    files = [file for text in texts for file in _listed(text, folder)]
    if len(files) < 3:
        rule = "`path` must contain `metadata/0.npy`, which lists at least three images"
        raise FileNotFoundError(f"{rule}. Received: {folder} with {len(files)} images")
    order = np.random.default_rng(split_seed).permutation(len(files))
    tenth = max(1, len(files) // 10)
    source = RecordSource(FileRecords([files[i] for i in order], channels=1))
    parts = split_source(source, len(files) - 2 * tenth, tenth, tenth)
    return Dataset("pathfinder", parts[0], parts[2], PATHFINDER_LABELS, parts[1])


def _listed(text, folder):
    """Yield the images of a text of metadata that are not empty, and their classes."""

    def fields(row):
        inner, name, _, label, *_ = row["line"].split()
        return folder / inner / name, CLASSES[label]

    rule = "A line must hold a folder, a name, a number and a class of 0 or 1."
    lines = text.read_text(encoding="utf-8", errors="replace").splitlines()
    for number, line in enumerate(lines, start=1):
        image, label = read_row(Row({"line": line}, text, number), fields, rule)
        if image.stat().st_size:
            yield image, label


def _make(total: int, seed: int, rules: Rules) -> dict[str, np.ndarray]:
    """Generate the first `total` pictures of a seed."""
    at_once = max(16, AT_ONCE // rules.image_size**2)
    images = np.empty((total, rules.image_size, rules.image_size, 1), "uint8")
    labels, start = np.empty(total, "int32"), 0

    def draw(rng):
        drawn = draw_paths(rng, at_once, rules)
        return draw_pixels(drawn, rules), drawn.labels

    for drawn in draw_rounds(draw, seed):
        if not any(len(classes) for _, classes in drawn):
            rule = "Two paths of `contour_length` must fit into `image_size`"
            attempts = len(drawn) * at_once
            raise ValueError(f"{rule}. Received: {rules}, without a picture in {attempts} attempts")
        for pixels, classes in drawn:
            count = min(len(classes), total - start)
            images[start : start + count] = pixels[:count]
            labels[start : start + count] = classes[:count]
            start += count
        if start == total:
            break
    return {"images": images, "labels": labels}
