"""Test multi-label and numeric targets, and errors that name the file and line of a row."""

import numpy as np
import pytest
from PIL import Image

from keras_permix.data import listed_images, load_texts
from keras_permix.data.targets import target_reader

pytestmark = pytest.mark.once


@pytest.mark.parametrize(
    ("rows", "how", "names", "targets"),
    [
        (["cat;dog", "", "dog"], {}, ("cat", "dog"), [[1, 1], [0, 0], [0, 1]]),
        (["b | a", "a;c"], {"separator": "|"}, ("a", "a;c", "b"), [[1, 0, 1], [0, 1, 0]]),
        ([["b", "a"], ["a"], None], {}, ("a", "b"), [[1, 1], [1, 0], [0, 0]]),
        (["one, two", "two"], {}, ("one, two", "two"), [[1, 0], [0, 1]]),
    ],
)
def test_multi_label_targets(rows, how, names, targets):
    rows = [{"label": value} for value in rows]
    found, read = target_reader(rows, "labels", **how)
    assert found == names and [list(read(row)) for row in rows] == targets


def write(folder, lines, name="list.csv"):
    for number in range(8):
        Image.fromarray(np.full((8, 8, 3), number, "uint8")).save(folder / f"{number}.png")
    (folder / name).write_text("\n".join(lines), encoding="utf-8")


def test_numeric_image_targets_with_test_fraction(tmp_path):
    write(tmp_path, ["path,age,size", *(f"{n}.png,{n}.5,{-n}" for n in range(8))])
    data = listed_images(
        "x", 8, tmp_path, train="list.csv", test_fraction=0.25, predicts="values",
        labels=["age", "size"],
    )  # fmt: skip
    assert data.labels == ("age", "size") and len(data.train[0]) == 6 and len(data.test[0]) == 2
    for source, _ in (data.train, data.test):
        images, targets = source.read(range(len(source)))
        level = images[:, 0, 0, 0].astype("float32")
        np.testing.assert_array_equal(targets, np.stack([level + 0.5, -level], 1))
        assert targets.dtype == "float32"
        np.testing.assert_array_equal(source.targets, targets)


READERS = {
    "images": lambda folder, **how: listed_images("x", 8, folder, **how),
    "texts": lambda folder, **how: load_texts("x", 8, folder, **how),
}


@pytest.mark.parametrize("kind", READERS)
@pytest.mark.parametrize(
    ("predicts", "column", "values", "labels", "message"),
    [
        ("values", "label", ("1.5", "two"), None, "number in the column 'label'.*'two'.*line 3"),
        ("values", "label", ("1.5", "nan"), None, "in the column 'label'.*nan is not finite"),
        ("values", "age", ("1.5", "inf"), ["age"], "number in the column 'age'.*'inf'.*line 3"),
        ("values", "age", ("1.5", ""), ["age"], "number in the column 'age'.*line 3"),
        ("labels", "cat", ("1", "2"), ["cat"], "0 or 1 in the column 'cat'.*'2'.*line 3"),
        ("labels", "label", ("", ""), None, "At least one row must have a label.*line 2"),
    ],
)  # fmt: skip
def test_invalid_rows_raise(kind, predicts, column, values, labels, message, tmp_path):
    field = {"images": "path", "texts": "text"}[kind]
    rows = [f"{number}.png,{value}" for number, value in enumerate(values)]
    write(tmp_path, [f"{field},{column}", *rows])
    with pytest.raises(ValueError, match=rf"(?s){message}") as caught:
        READERS[kind](tmp_path, train="list.csv", test="list.csv", predicts=predicts, labels=labels)
    assert "list.csv" in str(caught.value)


def test_error_names_the_wrong_column():
    _, read = target_reader([], "values", ["a", "b"])
    assert read({"a": "1", "b": "-2.5"}) == (1.0, -2.5)
    with pytest.raises(ValueError, match="a number in the column 'b'.*'two'"):
        read({"a": "1", "b": "two"})


@pytest.mark.parametrize("kind", READERS)
def test_label_only_in_test_part_raises(kind, tmp_path):
    field = {"images": "path", "texts": "text"}[kind]
    write(tmp_path, [f"{field},label", "0.png,cat;dog"], "train.csv")
    write(tmp_path, [f"{field},label", "1.png,cat", "2.png,cat;cow"], "test.csv")
    with pytest.raises(ValueError, match=r"test.csv, line 3 .*\['cow'\]"):
        READERS[kind](tmp_path, train="train.csv", test="test.csv", predicts="labels")
