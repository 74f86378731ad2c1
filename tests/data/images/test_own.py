"""Test custom image data: folders per class, lists of files, splits and errors."""

import csv
import os

import numpy as np
import pytest
from PIL import Image

from keras_permix.data import folder_images, listed_images


def save(path, level, size=(12, 9)):
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(np.full((*size, 3), level, "uint8")).save(path)


def write_classes(folder, counts, start=0):
    """Write a folder per class. Each image has a single gray level, unique among all images."""
    for number, (name, count) in enumerate(counts.items()):
        for image in range(count):
            save(folder / name / f"{image}.png", start + 40 * number + image, (10 + image, 14))


def levels(part):
    """Return the sorted pairs of class and gray level of a part."""
    source, _ = part
    images, labels = source.read(range(len(source)))
    assert images.shape[1:] == (8, 8, 3) and images.dtype == "uint8"
    return sorted(zip(labels.tolist(), images[:, 0, 0, 0].tolist(), strict=True))


def test_train_and_test_folders(tmp_path):
    write_classes(tmp_path / "pets/train", {"dogs": 2, "cats": 3})
    write_classes(tmp_path / "pets/test", {"cats": 1}, start=200)
    save(tmp_path / "pets/test/dogs/deeper/a.JPG", 99)
    (tmp_path / "pets/train/cats/Thumbs.db").write_bytes(b"no image")
    (tmp_path / "pets/train/.hidden").mkdir()
    data = folder_images("pets", 8, tmp_path)
    assert (data.name, data.labels) == ("pets", ("cats", "dogs"))
    assert levels(data.train) == [(0, 40), (0, 41), (0, 42), (1, 0), (1, 1)]
    assert levels(data.test) == [(0, 200), (1, 99)]


def test_fraction_is_held_out_for_testing(tmp_path):
    write_classes(tmp_path / "some/where", {"a": 10, "b": 5})

    def parts(**changes):
        data = folder_images("mine", 8, tmp_path, path="some/where", test_fraction=0.2, **changes)
        return levels(data.train), levels(data.test)

    train, test = parts()
    assert [label for label, _ in test] == [0, 0, 1]
    assert sorted(train + test) == [(0, n) for n in range(10)] + [(1, 40 + n) for n in range(5)]
    assert parts(seed=5) == (train, test), "the training seed must not change the split"
    assert len({tuple(parts(split_seed=seed)[1]) for seed in range(5)}) > 1


def test_image_with_two_paths_is_in_one_part(tmp_path):
    write_classes(tmp_path, {"a": 5, "b": 5})
    rows = [(f"{start}{c}/{n}.png", c) for start in ("", "a/../") for c in "ab" for n in range(5)]
    write_list(tmp_path / "all.csv", rows)
    data = listed_images("mine", 8, tmp_path, train="all.csv", test_fraction=0.5)
    assert len(levels(data.train)) + len(levels(data.test)) == 20
    assert not set(levels(data.train)) & set(levels(data.test))


@pytest.mark.skipif(os.name == "nt", reason="links require a privilege on Windows")
def test_paths_through_links_are_kept(tmp_path):
    write_classes(tmp_path / "store", {"a": 4, "b": 4})
    (tmp_path / "lists").mkdir()
    (tmp_path / "lists" / "current").symlink_to(tmp_path / "store" / "a")
    rows = [(f"current/../{c}/{n}.png", c) for c in "ab" for n in range(4)]
    write_list(tmp_path / "lists" / "all.csv", rows)
    data = listed_images("mine", 8, tmp_path, train="lists/all.csv", test_fraction=0.5)
    assert len(levels(data.train)) == len(levels(data.test)) == 4


@pytest.mark.skipif(os.name == "nt", reason="file names are Unicode on Windows")
def test_file_name_in_another_encoding(tmp_path):
    write_classes(tmp_path, {"a": 4, "b": 4})
    name = os.fsencode(tmp_path / "a" / "caf") + b"\xe9.png"
    try:
        os.rename(os.fsencode(tmp_path / "a" / "0.png"), name)
    except OSError:
        pytest.skip("this file system accepts only UTF-8 names")
    data = folder_images("mine", 8, tmp_path, path=".", test_fraction=0.5)
    assert len(levels(data.train)) == len(levels(data.test)) == 4


def write_list(path, rows, header=("path", "label")):
    with open(path, "w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([header, *rows])


def test_list_of_images(tmp_path):
    write_classes(tmp_path / "images", {"a": 4, "b": 4})
    rows = [(f"../images/{c}/{n}.png", f"{c}, the class") for c in "ab" for n in range(4)]
    (tmp_path / "lists").mkdir()
    write_list(tmp_path / "lists/all.csv", rows)
    data = listed_images("mine", 8, tmp_path, train="lists/all.csv", test_fraction=0.5)
    assert data.labels == ("a, the class", "b, the class")
    assert len(levels(data.test)) == 4
    assert sorted(levels(data.train) + levels(data.test)) == [
        (c, 40 * c + n) for c in (0, 1) for n in range(4)
    ]


def test_two_lists_match_two_splits_of_one_list(tmp_path):
    write_classes(tmp_path, {"a": 2, "b": 2})
    rows = [(f"{c}/{n}.png", c, ("train", "test")[n]) for c in "ab" for n in range(2)]
    write_list(tmp_path / "all.csv", rows, ("path", "label", "split"))
    for name in ("train", "test"):
        write_list(tmp_path / f"{name}.csv", [row[:2] for row in rows if row[2] == name])
    one = listed_images(
        "mine", 8, tmp_path, train="all.csv", test="all.csv", splits=("train", "test")
    )
    two = listed_images("mine", 8, tmp_path, train="train.csv", test="test.csv")
    for data in (one, two):
        assert (levels(data.train), levels(data.test)) == ([(0, 0), (1, 40)], [(0, 1), (1, 41)])


def test_additional_image_keeps_the_split(tmp_path):
    """At most one training image may move to the test part."""
    write_classes(tmp_path / "pets", {"a": 8, "b": 8})
    before = folder_images("pets", 8, tmp_path, test_fraction=0.25)
    save(tmp_path / "pets/a/000.png", 99)  # the first of its class
    after = folder_images("pets", 8, tmp_path, test_fraction=0.25)
    assert len(set(levels(after.test)) & set(levels(before.train))) <= 1


def test_hidden_folders_are_ignored(tmp_path):
    write_classes(tmp_path / "pets", {"a": 2, "b": 2, "a/.thumbnails": 2, ".c": 2})
    data = folder_images("pets", 8, tmp_path, test_fraction=0.5)
    assert data.labels == ("a", "b")
    assert len(levels(data.train) + levels(data.test)) == 4


def test_whitespace_around_labels_is_ignored(tmp_path):
    write_classes(tmp_path, {"a": 2, "b": 2})
    lines = ["path, label", "a/0.png, a", "a/1.png,a ", 'b/0.png,  "b"', "b/1.png,b\t", ""]
    (tmp_path / "all.csv").write_text("\n".join(lines))
    data = listed_images("mine", 8, tmp_path, train="all.csv", test_fraction=0.5)
    assert data.labels == ("a", "b")


def test_class_without_test_images_warns(tmp_path):
    write_classes(tmp_path / "pets/train", {"a": 1, "b": 1})
    write_classes(tmp_path / "pets/test", {"b": 1})
    with pytest.warns(
        UserWarning, match=r"pets has no samples to test on for 1 of its 2 classes: \['a'\]"
    ):
        folder_images("pets", 8, tmp_path)


def test_image_in_two_classes_or_parts_raises(tmp_path):
    write_classes(tmp_path, {"a": 3, "b": 3})
    rows = [("a/0.png", "a"), ("b/0.png", "b")]
    write_list(tmp_path / "all.csv", [*rows, ("a/../a/0.png", "b")])
    with pytest.raises(
        ValueError, match="one label.*a/0.png .*'a', 'all.csv', None. and .'b', 'all.csv'"
    ):
        listed_images("mine", 8, tmp_path, train="all.csv", test_fraction=0.5)
    for name, more in (("train", [("a/1.png", "a")]), ("test", [("b/1.png", "b")])):
        write_list(tmp_path / f"{name}.csv", [*rows, *more])
    with pytest.raises(ValueError, match="one part.*'a', 'train.csv', None. and .'a', 'test.csv'"):
        listed_images("mine", 8, tmp_path, train="train.csv", test="test.csv")
    write_list(tmp_path / "test.csv", [(tmp_path / "a" / "0.png", "a"), ("b/1.png", "b")])
    with pytest.raises(ValueError, match="one part.*'a', 'train.csv', None. and .'a', 'test.csv'"):
        listed_images("mine", 8, tmp_path, train="train.csv", test="test.csv")
    whole = listed_images("mine", 8, tmp_path, train="train.csv", test="train.csv")
    assert levels(whole.train) == levels(whole.test)


def test_one_channel(tmp_path):
    write_classes(tmp_path / "pets", {"a": 2, "b": 2})
    source, _ = folder_images("pets", 8, tmp_path, test_fraction=0.5, channels=1).train
    assert source.read([0])[0].shape == (1, 8, 8, 1)


def test_git_and_macos_folders_are_not_classes(tmp_path):
    write_classes(tmp_path / "pets", {"a": 2, "b": 2, ".git": 1, "__MACOSX": 1})
    assert folder_images("pets", 8, tmp_path, test_fraction=0.5).labels == ("a", "b")


def test_names_of_classes(tmp_path):
    write_classes(tmp_path / "pets", {"n02": 2, "n01": 4})
    data = folder_images("pets", 8, tmp_path, test_fraction=0.5, labels=["dog", "cat"])
    assert data.labels == ("dog", "cat")
    classes = [level // 40 for _, level in levels(data.train)]
    assert classes == [1, 1, 0], "dogs are the images of the folder n01, written second"
    data = folder_images("pets", 8, tmp_path, test_fraction=0.5, order=("n02", "n01"))
    assert data.labels == ("n02", "n01")
    assert [(y, level // 40) for y, level in levels(data.train)] == [(0, 0), (1, 1), (1, 1)]
    data = folder_images("pets", 8, tmp_path, test_fraction=0.5, order=("a", "b"))
    assert data.labels == ("n01", "n02")
    named = dict(labels=["dog", "cat"], order=("n02", "n01"))  # a model without names
    data = folder_images("pets", 8, tmp_path, test_fraction=0.5, **named)
    assert data.labels == ("dog", "cat")
    assert [(y, level // 40) for y, level in levels(data.train)] == [(0, 1), (0, 1), (1, 0)]
    with pytest.raises(ValueError, match=r"labels=\['dog'\], 1 labels for 2 outputs"):
        folder_images("pets", 8, tmp_path, test_fraction=0.5, labels=["dog"])
    with pytest.raises(ValueError, match=r"=\['n02', 'n01'\] for folders \['n01'"):
        folder_images("pets", 8, tmp_path, test_fraction=0.5, labels=["n02", "n01"])


def test_unreadable_image_raises(tmp_path):
    write_classes(tmp_path / "pets", {"a": 2, "b": 2})
    (tmp_path / "pets/a/1.png").write_bytes(b"\x89PNG damaged")
    with pytest.raises(ValueError, match="must be readable.*1 of 4 unreadable: .*pets/a/1.png"):
        folder_images("pets", 8, tmp_path, test_fraction=0.5)


def test_class_without_readable_training_images_raises(tmp_path):
    write_classes(tmp_path / "pets/train", {"a": 1, "b": 1, "c": 1})
    write_classes(tmp_path / "pets/test", {"a": 1, "b": 1, "c": 1})
    (tmp_path / "pets/train/c/0.png").write_bytes(b"\x89PNG damaged")
    with pytest.warns(UserWarning, match="1 of 6 unreadable"):
        with pytest.raises(ValueError, match=r"\['a', 'b'\] for training, \['a', 'b', 'c'\] for"):
            folder_images("pets", 8, tmp_path, skip_unreadable=True)


@pytest.mark.parametrize(
    ("counts", "changes", "error", "rule"),
    [
        ({"a": 2, "b": 0}, {}, ValueError, r"pets with 2 classes, without images in \['b'\]"),
        ({"a": 4}, {}, ValueError, r"at least two classes.*\['a'\] for training"),
        ({"a": 4, "b": 1}, {}, ValueError, "leave at least one image per class.*1 images of 'b'"),
        ({"a": 2, "b": 2}, {"test_fraction": 1.5}, ValueError, "leave at least one image.*=1.5"),
        ({"a": 2, "b": 2}, {"test_fraction": None}, FileNotFoundError, "pets/train"),
        ({"a": 2, "b": 2}, {"path": "cats"}, FileNotFoundError, "cats"),
        ({"train": 2, "Val": 2}, {}, ValueError, r"named like parts.*\['Val', 'train'\]"),
        ({"a": 2, "b": 2}, {"validation": "val"}, ValueError, "must be None.*validation='val'"),
        ({"a": 2, "b": 2}, {"splits": ("x", "y")}, ValueError, r"must be None.*splits=\('x', 'y'"),
        (
            {"a": 2, "b": 2},
            {"test_fraction": None, "splits": ("x", "y", "z")},
            ValueError,
            r"the training and the test part.*splits=\('x', 'y', 'z'\), validation=None",
        ),
        (
            {"a": 2, "b": 2},
            {"test_fraction": None, "splits": ("x", "y"), "validation": "y"},
            ValueError,
            r"`validation` names a third one. Received: splits=\('x', 'y'\), validation='y'",
        ),
    ],
    ids="empty one-class one-image fraction no-train absent parts validation splits three "
    "equal".split(),
)
def test_invalid_folders_raise(counts, changes, error, rule, tmp_path):
    write_classes(tmp_path / "pets", counts)
    for name in counts:
        (tmp_path / "pets" / name).mkdir(exist_ok=True)
    with pytest.raises(error, match=rule):
        folder_images("pets", 8, tmp_path, **{"test_fraction": 0.5, **changes})


def test_class_only_in_test_folder_raises(tmp_path):
    write_classes(tmp_path / "pets/train", {"a": 1, "b": 1})
    write_classes(tmp_path / "pets/test", {"a": 1, "c": 1})
    with pytest.raises(ValueError, match=r"test class.*\['a', 'c'\] for testing"):
        folder_images("pets", 8, tmp_path)


@pytest.mark.parametrize(
    ("rows", "changes", "error", "rule"),
    [
        (
            [("gone.png", "b"), ("lost.png", "b"), ("a/0.png", "a"), ("a/1.png", "a")],
            {},
            FileNotFoundError,
            "No such file.*gone.png",
        ),
        ([("a/0.png", " ")], {}, ValueError, "a `path` and a `label`.*all.csv"),
        ([("a/0.png", "a"), ("a/1.png", "a")], {}, ValueError, "at least two classes"),
        (
            [],
            {"test_fraction": None},
            ValueError,
            "`test` or `test_fraction`.*test=None, test_fraction=None",
        ),
        ([], {"train": "none.csv"}, FileNotFoundError, "none.csv"),
        (
            [("a/0.png", "a")],
            {"labels": ["a", "b"]},
            ValueError,
            r"must be None for predicts='class'.*labels=\['a', 'b'\], separator=None",
        ),
        ([], {"validation": "val"}, ValueError, "must be None.*validation='val'"),
        ([], {"splits": ["a", "b"]}, ValueError, r"must be None.*splits=\('a', 'b'\)"),
        (
            [("a/0.png", "a")] * 3,
            {},
            ValueError,
            "leave at least one image per class.*1 images of 'a'",
        ),
    ],
    ids="missing no-label one-class no-test no-list labels validation splits one-image".split(),
)
def test_invalid_lists_raise(rows, changes, error, rule, tmp_path):
    write_classes(tmp_path, {"a": 2})
    write_list(tmp_path / "all.csv", rows)
    with pytest.raises(error, match=rule):
        listed_images("mine", 8, tmp_path, **{"train": "all.csv", "test_fraction": 0.5, **changes})
