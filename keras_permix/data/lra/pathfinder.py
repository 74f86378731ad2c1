"""Pathfinder and Path-X: whether two dots are the ends of one dashed path."""

import itertools
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from keras_permix._typing import StrPath
from keras_permix.data.cached import cached_samples
from keras_permix.data.dataset import Dataset
from keras_permix.data.images.own import FileRecords
from keras_permix.data.images.records import RecordSource
from keras_permix.data.lra.pathfinder_paths import Rules, draw_paths, draw_pixels
from keras_permix.data.lra.rounds import rounds

PATHFINDER_LABELS = ("two paths", "one path")
AT_ONCE = 2**18  # pixels of the pictures that are drawn at once
# Side of the pictures -> what the Long Range Arena made them of; a gap of several numbers is one of
# them in each picture.
SIZES: dict[int, dict[str, Any]] = {
    32: dict(
        dash_length=2, dash_thickness=0.5, gap=1, dot_radius=1.5, seed_distance=7, distractors=5,
        contrast=0.75,
    ),
    64: dict(
        dash_length=5, dash_thickness=1, gap=1, dot_radius=2.5, seed_distance=12, distractors=4,
        contrast=0.8,
    ),
    128: dict(
        dash_length=5, dash_thickness=1.5, gap=(2, 3), dot_radius=3, seed_distance=20,
        distractors=7, contrast=0.9,
    ),
    256: dict(
        dash_length=5, dash_thickness=2, gap=3, dot_radius=5, seed_distance=27, distractors=6,
        contrast=1.0,
    ),
}  # fmt: skip


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
    """Make pictures for Pathfinder (32 or 64 pixels) and Path-X (128 or 256).

    A picture shows two long paths of dashes, some shorter ones, and two dots. The dots are at the
    beginning and the end of one long path (class 1), or at the beginning of one and the end of the
    other (class 0), equally likely. Paths keep further from each other than the dashes of one do.

    The rules are those of the pictures of the Long Range Arena; how paths bend is not, so that
    accuracies are not to be compared with published ones. The same numbers give the same pictures,
    however many processors there are. All are held in memory; sets of 10,000 or more are made once,
    and kept in Keras' cache (`KERAS_HOME`).

    Args:
        image_size: Side of the pictures in pixels, at least 16; any but 32, 64, 128 and 256 takes
            what is `None` from the next smaller one of these, 16 to 31 from 32.
        train, validation, test: Number of pictures.
        contour_length: Dashes of a long path; the Long Range Arena has 9 and 14.
        distractors: The most short paths; a picture without room for all has fewer. `None`: 5, 4,
            7, 6 for the sizes above, in their order.
        distractor_length: Dashes of these. `None`: a third of `contour_length`.
        dash_length: In pixels. `None`: 2, 5, 5, 5.
        dash_thickness: In pixels. `None`: 0.5, 1, 1.5, 2.
        gap: Pixels between two dashes of a path, or several such numbers, of which a picture has
            one. `None`: 1, 1, (2, 3), 3.
        dot_radius: In pixels. `None`: 1.5, 2.5, 3, 5.
        seed_distance: Pixels between the beginnings of the long paths. `None`: 7, 12, 20, 27.
        contrast: Brightness of dashes, up to 1, that of dots. `None`: 0.75, 0.8, 0.9, 1.
        bend: Standard deviation of the angle between a dash and the next, in radians, where
            nothing is in the way.
        seed: Integer ≥ 0.

    Returns:
        A `Dataset` whose parts are `(images, labels)`, with a `validation` part: uint8
        `(pictures, image_size, image_size, 1)`, 0–255, and int32 `(pictures,)`.

    Raises:
        ValueError: if a number is out of range, or no picture has room for the long paths.

    Example:

    >>> from keras_permix.data import generated_pathfinder
    >>> sizes = dict(train=8, validation=2, test=2, contour_length=4, distractors=2)
    >>> generated_pathfinder(32, **sizes).train[0].shape
    (8, 32, 32, 1)

    Reference: [Linsley et al., 2018](https://arxiv.org/abs/1805.08315),
    [Kim et al., 2020](https://openreview.net/forum?id=HJxrVA4FDS), and the released code; numbers
    of [Tay et al., "Long Range Arena", 2020](https://arxiv.org/abs/2011.04006).
    """
    counts = (train, validation, test)
    given = {
        "distractors": distractors,
        "dash_length": dash_length,
        "dash_thickness": dash_thickness,
        "gap": gap,
        "dot_radius": dot_radius,
        "seed_distance": seed_distance,
        "contrast": contrast,
    }
    usual = SIZES[max([size for size in SIZES if size <= image_size], default=32)]
    chosen = usual | {name: value for name, value in given.items() if value is not None}
    gaps = chosen.pop("gap")
    rules = Rules(
        image_size=image_size,
        contour_length=contour_length,
        distractor_length=distractor_length or max(1, contour_length // 3),
        gaps=tuple(gaps) if isinstance(gaps, list | tuple) else (gaps,),
        bend=bend,
        **chosen,
    )
    _check_numbers(counts, seed, rules)
    total = sum(counts)
    parameters = {"version": 1, "pictures": total, "seed": seed, **rules._asdict()}
    content = json.dumps(parameters, sort_keys=True).encode()
    made = cached_samples(total, "pathfinder", content, lambda: _make(total, seed, rules))
    return _dataset(made["images"], made["labels"], counts)


def load_pathfinder(
    image_size: int = 32,
    data_dir: StrPath | None = None,
    *,
    path: StrPath | None = None,
    split_seed: int = 0,
) -> Dataset:
    """Load Pathfinder or Path-X from the folders that the Long Range Arena gives away.

    A folder holds `imgs/N/sample_M.png`, gray, and for each N a text `metadata/N.npy`; a line of it
    has words with spaces between: the image's folder, its name, a number, and the class. Images
    without a byte are left out, as by the Long Range Arena: 200,000 are all but one or two. Images
    are read, with Pillow, when a batch wants them.

    Args:
        image_size: Side of the pictures in pixels: 32, 64, 128 or 256.
        data_dir: Folder that `path` is relative to; `None`: the current one.
        path: The folder. `None`: `pathfinder32/curv_contour_length_14`, with the `image_size`; the
            easier ones are `curv_contour_length_9` and `curv_baseline`.
        split_seed: Integer ≥ 0. It draws a tenth for validation and a tenth for testing; the parts
            of the Long Range Arena are as large, but not made public.

    Returns:
        A `Dataset` whose parts are `(RecordSource, None)`, with a `validation` part.

    Raises:
        ValueError: for a damaged line, a class that is not 0 or 1, or fewer than three images.
        FileNotFoundError: for a folder or an image that is not there.

    Example:

    >>> from keras_permix.data import load_pathfinder
    >>> data = load_pathfinder(32, path="pathfinder32/curv_baseline")  # doctest: +SKIP
    >>> data.train[0].read([0])[0].shape  # doctest: +SKIP
    (1, 32, 32, 1)

    Reference: [Tay et al., "Long Range Arena", 2020](https://arxiv.org/abs/2011.04006).
    """
    folder = Path(data_dir or ".") / (path or f"pathfinder{image_size}/curv_contour_length_14")
    texts = sorted((folder / "metadata").glob("*.npy"))
    if not texts:
        raise FileNotFoundError(
            "The folder must hold `metadata/0.npy` and so on, and `imgs`. "
            f"Received: {folder} without any"
        )
    files = [file for text in texts for file in _listed(text, folder)]
    files = [(image, label) for image, label in files if image.stat().st_size]
    if len(files) < 3:
        raise ValueError(
            "There must be three images or more, for three parts. "
            f"Received: {len(files)} in {folder} that are not empty"
        )
    order = np.random.default_rng(split_seed).permutation(len(files))
    tenth = max(1, len(files) // 10)
    train, validation, test = (
        (RecordSource(FileRecords([files[i] for i in some], channels=1)), None)
        for some in np.split(order, [len(files) - 2 * tenth, len(files) - tenth])
    )
    return Dataset("pathfinder", train, test, PATHFINDER_LABELS, validation)


def _listed(text, folder):
    """The images of one text of metadata, and their classes."""
    try:
        lines = text.read_text(encoding="utf-8").splitlines()
    except UnicodeDecodeError as error:
        raise ValueError(f"Metadata must be a text. Received: {text} ({error})") from error
    for number, line in enumerate(lines, start=1):
        words = line.split()
        if len(words) < 4 or words[3] not in ("0", "1"):
            raise ValueError(
                "A line of metadata must name a folder, an image, a number, and a class of 0 or 1. "
                f"Received: {line[:100]!r}, line {number} of {text}"
            )
        image = folder / words[0] / words[1]
        if not image.is_file():
            raise FileNotFoundError(f"The image file must exist. Received: {image}")
        yield image, int(words[3])


def _dataset(images, labels, counts):
    first, second = counts[0], counts[0] + counts[1]
    train, validation, test = (
        (images[some], labels[some])
        for some in (slice(first), slice(first, second), slice(second, None))
    )
    return Dataset("pathfinder", train, test, PATHFINDER_LABELS, validation)


def _make(total: int, seed: int, rules: Rules) -> dict[str, np.ndarray]:
    """The first pictures of all that a seed gives."""
    images = np.empty((total, rules.image_size, rules.image_size, 1), "uint8")
    labels = np.empty(total, "int32")
    for number, (image, label) in enumerate(itertools.islice(_pictures(seed, rules), total)):
        images[number], labels[number] = image, label
    return {"images": images, "labels": labels}


def _pictures(seed: int, rules: Rules) -> Iterator[tuple[np.ndarray, int]]:
    at_once = max(16, AT_ONCE // rules.image_size**2)
    for drawn in rounds(lambda rng: _draw(rng, at_once, rules), seed):
        if not any(len(images) for images, _ in drawn):
            raise ValueError(
                "There must be room for the two long paths. Make them shorter, or the picture "
                f"larger. Received: {rules}, and none in {len(drawn) * at_once} tries"
            )
        for images, labels in drawn:
            yield from zip(images, labels, strict=True)


def _draw(rng, pictures, rules):
    drawn = draw_paths(rng, pictures, rules)
    return draw_pixels(drawn, rules), drawn.labels


def _check_numbers(counts, seed, rules):
    if min(counts) < 1 or seed < 0:
        raise ValueError(
            "`train`, `validation` and `test` must be 1 or more, and `seed` 0 or more. "
            f"Received: {counts}, seed={seed}"
        )
    if rules.image_size < 16 or rules.contour_length < 2 or rules.distractors < 0:
        raise ValueError(
            "`image_size` must be 16 or more, `contour_length` 2 or more, `distractors` 0 or more. "
            f"Received: {rules.image_size}, {rules.contour_length}, {rules.distractors}"
        )
    if not 1 <= rules.distractor_length <= rules.contour_length:
        raise ValueError(
            "`distractor_length` must be from 1 to `contour_length`. "
            f"Received: {rules.distractor_length}, contour_length={rules.contour_length}"
        )
    sizes = (rules.dash_length, rules.dash_thickness, rules.dot_radius, rules.seed_distance)
    if min(sizes) <= 0 or not rules.gaps or min(rules.gaps) < 0 or rules.bend < 0:
        raise ValueError(
            "Lengths must be more than 0, and `gap` and `bend` 0 or more. "
            f"Received: dash_length, dash_thickness, dot_radius, seed_distance = {sizes}, "
            f"gap={rules.gaps}, bend={rules.bend}"
        )
    if not 0 < rules.contrast <= 1:
        raise ValueError(
            f"`contrast` must be more than 0 and at most 1. Received: {rules.contrast}"
        )
