"""Test Pathfinder: generated images, labels, files of the Long Range Arena and errors."""

import hashlib
from pathlib import Path

import numpy as np
import pytest

from keras_permix.data import Pipeline, cached, generated_pathfinder, load_pathfinder, read_image
from keras_permix.data.lra import pathfinder
from keras_permix.data.lra.pathfinder_paths import Rules, draw_paths, draw_pixels

HERE = Path(__file__).parent
SMALL = dict(train=12, validation=4, test=4, contour_length=5, distractors=2)
EASY = dict(distractor_length=3, dash_length=3, dash_thickness=1, gaps=(1,), dot_radius=1.5,
            seed_distance=8, contrast=0.8, bend=0.4)  # fmt: skip
# Settings of the Long Range Arena, which fill the images.
FULL = {
    32: Rules(32, 14, 5, 4, 2, 0.5, (1,), 1.5, 7, 0.75, 0.4),
    64: Rules(64, 14, 4, 4, 5, 1, (1,), 2.5, 12, 0.8, 0.4),
    128: Rules(128, 14, 20, 4, 5, 1.5, (2, 3), 3, 20, 0.73, 0.4),
}


def component(mask, start):
    """Return the 8-connected component of pixels that contains `start`."""
    found, waiting = set(), [start]
    while waiting:
        y, x = waiting.pop()
        if (y, x) in found or not (0 <= y < len(mask) and 0 <= x < len(mask) and mask[y, x]):
            continue
        found.add((y, x))
        waiting += [(y + dy, x + dx) for dy in (-1, 0, 1) for dx in (-1, 0, 1)]
    return found


@pytest.mark.parametrize("size", FULL)
def test_labels_match_connected_dots(size):
    rules = FULL[size]
    drawn = draw_paths(np.random.default_rng(5), 2**20 // size**2, rules)
    assert 20 <= len(drawn.labels) and 0.25 < drawn.labels.mean() < 0.75
    masks = path_masks(drawn, rules)
    for mask, dots, label in zip(masks, drawn.dots, drawn.labels, strict=True):
        first, second = (tuple(dot) for dot in np.rint(dots).astype(int))
        assert (second in component(mask > 0, first)) == label
    for dy, dx in [(0, 1), (1, 0), (1, 1)]:  # Different paths must not touch.
        one, next_one = masks[:, : size - dy, : size - dx], masks[:, dy:, dx:]
        assert not ((one != next_one) & (one > 0) & (next_one > 0)).any()


def test_paths_have_requested_dashes_and_gaps():
    rules = Rules(64, 6, 3, **{**EASY, "gaps": (2, 4)})
    drawn = draw_paths(np.random.default_rng(0), 200, rules)
    lengths = np.linalg.norm(drawn.ends - drawn.starts, axis=-1)
    gaps = np.linalg.norm(drawn.starts[:, :, 1:] - drawn.ends[:, :, :-1], axis=-1)
    dashes = (~np.isnan(lengths)).sum(axis=2)
    assert dashes.shape[1] == 5 and set(dashes[:, :2].ravel()) == {6}
    assert set(dashes[:, 2:].ravel()) <= {0, 3} and dashes[:, 2:].mean() > 2.5
    np.testing.assert_allclose(lengths[~np.isnan(lengths)], 3)
    ours = [set(np.round(row[~np.isnan(row)], 6)) for row in gaps.reshape(len(gaps), -1)]
    assert {tuple(row) for row in ours} == {(2.0,), (4.0,)}  # one gap size per image
    between = np.linalg.norm(drawn.starts[:, 0, 0] - drawn.starts[:, 1, 0], axis=-1)
    np.testing.assert_allclose(between, 8)


def test_distance_between_dots_barely_predicts_label():
    drawn = draw_paths(np.random.default_rng(1), 4000, FULL[32])
    distances = np.linalg.norm(drawn.dots[:, 0] - drawn.dots[:, 1], axis=-1)
    right = [((distances > cut) == drawn.labels).mean() for cut in range(40)]
    assert len(distances) > 300 and max(*right, *(1 - np.array(right))) < 0.62


def test_brightness():
    rules = Rules(48, 6, 2, **EASY)
    drawn = draw_paths(np.random.default_rng(2), 40, rules)
    images = draw_pixels(drawn, rules)
    assert images.dtype == "uint8" and images.shape == (len(drawn.labels), 48, 48, 1)
    y, x = np.rint(drawn.dots).astype(int).T
    index = np.arange(len(images))
    assert images[index, y, x].min() == 255
    near = np.linalg.norm(np.indices((48, 48)).T[:, :, ::-1] - drawn.dots[0, 0], axis=-1).T
    far = np.linalg.norm(np.indices((48, 48)).T[:, :, ::-1] - drawn.dots[0, 1], axis=-1).T
    dashes = images[0, ..., 0][np.minimum(near, far).T > 3]
    assert 200 <= dashes.max() <= 204 and (dashes == 0).mean() > 0.7


def test_pixels_match_distances_to_lines():
    """Compare with distances computed pixel by pixel."""
    rules = Rules(24, 4, 0, **EASY)
    drawn = draw_paths(np.random.default_rng(3), 30, rules)
    image = draw_pixels(drawn, rules)[0, ..., 0]
    for y in range(24):
        for x in range(24):
            lines = np.stack([drawn.starts[0, :2], drawn.ends[0, :2]], axis=2).reshape(-1, 2, 2)
            steps = np.linspace(0, 1, 400)[:, None]
            near = [np.hypot(*(a * (1 - steps) + b * steps - (y, x)).T).min() for a, b in lines]
            dots = [np.hypot(*(dot - (y, x))) for dot in drawn.dots[0]]
            level = max(0.8 * np.clip(1 - min(near), 0, 1), np.clip(2 - min(dots), 0, 1))
            assert abs(255 * level - image[y, x]) < 1.5


def parts(data):
    return [data.train, data.validation, data.test]


def test_images_depend_only_on_seed_and_rules():
    data = generated_pathfinder(32, **SMALL)
    assert [len(images) for images, _ in parts(data)] == [12, 4, 4]
    assert (data.name, data.labels) == ("pathfinder", ("two paths", "one path"))
    again, other = generated_pathfinder(32, **SMALL), generated_pathfinder(32, **SMALL, seed=1)
    for one, two in zip(parts(data), parts(again), strict=True):
        np.testing.assert_array_equal(one[0], two[0])
        np.testing.assert_array_equal(one[1], two[1])
    assert not np.array_equal(data.train[0], other.train[0])


def test_large_set_is_cached(tmp_path, monkeypatch):
    monkeypatch.setenv("KERAS_HOME", str(tmp_path))
    monkeypatch.setattr(cached, "MANY", 1)
    made = generated_pathfinder(32, **SMALL)
    monkeypatch.setattr(pathfinder, "draw_paths", None)
    read = generated_pathfinder(32, **SMALL)
    np.testing.assert_array_equal(read.test[0], made.test[0])


@pytest.mark.parametrize("few", [dict(distractors=5, gap=1, contrast=0.9), dict(distractors=20)])
def test_dimension_mixer_curriculum(few):
    data = generated_pathfinder(128, train=2, validation=1, test=1, **few)
    images, labels = Pipeline(*data.train, batch_size=2, num_classes=2)[0]
    assert images.shape == (2, 128, 128, 1) and images.max() == 255


def test_long_range_arena_folders():
    data = load_pathfinder(32, HERE)
    assert [len(source) for source, _ in parts(data)] == [3, 1, 1]
    folder = HERE / "pathfinder32" / "curv_contour_length_14"
    found = {}
    for number in (0, 1):
        for line in (folder / "metadata" / f"{number}.npy").read_text().splitlines():
            inner, name, _, label, *_ = line.split(" ")
            found[read_image(folder / inner / name, 1).tobytes()] = int(label)
    assert len(found) == 5 and set(found.values()) == {0, 1}
    seen = {}
    for part in parts(data):
        images, labels = Pipeline(*part, batch_size=8)[0]
        assert images.shape[1:] == (32, 32, 1) and images.dtype == "uint8"
        seen |= {image.tobytes(): label for image, label in zip(images, labels, strict=True)}
    assert seen == found
    other = [load_pathfinder(32, HERE, split_seed=seed).test[0].read([0])[0] for seed in range(6)]
    assert len({image.tobytes() for image in other}) > 1


@pytest.mark.parametrize(
    ("line", "error", "rule"),
    [
        (
            "imgs/0 a.png",
            ValueError,
            "Received: .*imgs/0 a.png.*0.npy, line 1 .*not enough",
        ),
        ("\x93NUMPY", ValueError, "Received: .*NUMPY.*metadata/0.npy, line 1"),
        ("imgs/0 b.png 0 1", FileNotFoundError, "b.png"),
        ("imgs/0 a.png 0 2", ValueError, "class of 0 or 1.*KeyError: '2'"),
        ("imgs/0 a.png 0 1", FileNotFoundError, "three images.*Received: .* with 0 images"),
    ],
)
def test_damaged_folders_raise(tmp_path, line, error, rule):
    for name in ("imgs/0", "metadata"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "imgs" / "0" / "a.png").write_bytes(b"")
    (tmp_path / "metadata" / "0.npy").write_bytes(line.encode("latin-1"))
    with pytest.raises(error, match=rule):
        load_pathfinder(32, tmp_path, path=".")


def test_missing_folder_raises(tmp_path):
    with pytest.raises(FileNotFoundError, match="`metadata/0.npy`.*pathfinder64/curv"):
        load_pathfinder(64, tmp_path)


@pytest.mark.parametrize(
    ("changes", "rule"),
    [
        (dict(image_size=8), "`image_size`.*without a picture in"),
        (dict(contour_length=0), "`contour_length` must.*contour_length=0"),
        (dict(distractor_length=0), "`distractor_length` must.*distractor_length=0"),
        (dict(distractors=-1), "negative dimensions"),
        (dict(validation=-2), "`validation` must be .* at least 0.*validation=-2"),
        (dict(train=9.6e4), "`train` must be .*train=96000.0"),
        (dict(contrast=1.5), "`contrast` must be .*contrast=1.5"),
        (dict(contour_length=80), "`contour_length`.*without a picture in"),
    ],
)
def test_invalid_arguments_raise(changes, rule, monkeypatch):
    monkeypatch.setattr(pathfinder, "AT_ONCE", 1)
    with pytest.raises(ValueError, match=rule):
        generated_pathfinder(**{"image_size": 32, **SMALL, **changes})


def test_distractors_may_be_longer_than_paths():
    changes = dict(contour_length=3, distractor_length=5, gap=np.array([1, 2]), seed=np.int64(1))
    data = generated_pathfinder(32, **{**SMALL, **changes})
    assert data.train[0].max(axis=(1, 2, 3)).min() == 255


def path_masks(pictures, rules):
    """Return the number of the path at each pixel, gaps included: 1 and 2 are the long paths."""
    size = rules.image_size
    masks = np.zeros((len(pictures.labels), size, size), "uint8")
    corners = np.stack([pictures.starts, pictures.ends], axis=3)
    count, paths = corners.shape[:2]
    corners = corners.reshape(count, paths, -1, 2)
    share = np.linspace(0, 1, 4 + 4 * int(rules.dash_length + max(rules.gaps)))[:, None]
    points = corners[:, :, :-1, None] * (1 - share) + corners[:, :, 1:, None] * share
    for path in reversed(range(paths)):
        index, *_ = where = np.nonzero(~np.isnan(points[:, path, ..., 0]))
        y, x = np.rint(points[:, path][tuple(where)]).astype(int).T
        masks[index, y, x] = path + 1
    return masks


def test_images_of_a_version_never_change():
    """Scores depend on these images. If they change, increase `version` and update the hash."""
    data = generated_pathfinder(32, **SMALL)
    digest = hashlib.sha256()
    for images, labels in (data.train, data.validation, data.test):
        digest.update(np.ascontiguousarray(images, "uint8").tobytes())
        digest.update(np.asarray(labels, "uint8").tobytes())
    assert digest.hexdigest() == (
        "9616c704431513193b76b5716ab96fbfe0c404b5b3360bbe81f8d59b10fee9c9"
    )
