"""Test document pairs in the format of the Long Range Arena, and halves of reviews."""

from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from keras_permix.data import Pipeline, load_retrieval, load_review_halves
from keras_permix.data.lra import retrieval
from keras_permix.data.lra.retrieval import FILES

SAMPLE = Path(__file__).parent / "aan"


def padded(text, length):
    row = [byte + 1 for byte in text.encode("utf-8")][:length]
    return row + [0] * (length - len(row))


def test_pairs():
    data = load_retrieval(16, SAMPLE)
    parts = [data.train[0], data.validation[0], data.test[0]]
    assert [source.targets.tolist() for source in parts] == [[0, 1, 0], [1], [0, 1]]
    assert (data.name, data.labels) == ("retrieval", ("unrelated", "cited"))
    inputs, labels = Pipeline(*data.train, batch_size=3)[0]
    texts = [
        ('we sort tokens instead of "comparing" them', "a grammar of a small language"),
        ('we sort tokens instead of "comparing" them', "sorting: what we built upon"),
        ("ein kürzerer Text", "a grammar of a small language"),
    ]
    tokens = [[padded(text, 16) for text in pair] for pair in texts]
    np.testing.assert_array_equal(inputs["tokens"], tokens)
    np.testing.assert_array_equal(inputs["mask"], np.array(tokens) != 0)


@pytest.mark.parametrize(
    ("content", "rule"),
    [
        (b"1.0\ta\tb\ttext\ttext\n2\ta\tb\ttext\ttext\n", "class of 0 or 1.*in .*eval.tsv, line 2"),
        (b"", r"must have rows. Received: .*eval.tsv"),
        (b"1.0\ta\tb\ttext\n", "two ids and two texts.*line 1"),
        (b"label\tid1\tid2\ttext1\ttext2\n", "no header|class of 0 or 1"),
        (b"1.0\ta\tb\t\xff\ttext\n", "in UTF-8. Received: .*eval.tsv"),
    ],
)
def test_damaged_files_raise(tmp_path, content, rule):
    for name in FILES:
        good = (SAMPLE / name).read_bytes()
        (tmp_path / name).write_bytes(content if ".eval." in name else good)
    with pytest.raises(ValueError, match=rule):
        load_retrieval(16, tmp_path)


def test_missing_files_raise(tmp_path, monkeypatch):
    monkeypatch.delenv("KERAS_PERMIX_DATA", raising=False)
    with pytest.raises(FileNotFoundError, match="Set KERAS_PERMIX_DATA .* new_aan_pairs.train.tsv"):
        load_retrieval(16)
    with pytest.raises(FileNotFoundError, match="new_aan_pairs.train.tsv .* without these files"):
        load_retrieval(16, tmp_path)


def write_reviews(folder, numbers):
    for number in numbers:
        label = "neg" if number % 2 else "pos"
        path = folder / label / f"{number}_7.txt"
        path.parent.mkdir(parents=True, exist_ok=True)
        text = f"\tFilm {number} is\nabout cats and dogs {number}. "
        path.write_text(text, encoding="utf-8")


def test_each_half_is_in_one_pair_and_half_of_the_pairs_match(tmp_path, monkeypatch):
    monkeypatch.setattr(retrieval, "HELD_OUT", 4)
    write_reviews(tmp_path / "aclImdb" / "train", range(20))
    write_reviews(tmp_path / "aclImdb" / "test", range(20, 28))
    data = load_review_halves(64, tmp_path)
    assert (data.name, data.labels) == ("retrieval", ("another review", "same review"))
    train, validation, test = (part[0] for part in (data.train, data.validation, data.test))
    assert [len(part) for part in (train, validation, test)] == [16, 4, 8]
    for texts, targets, numbers in (
        (train.texts + validation.texts, [*train.targets, *validation.targets], range(20)),
        (test.texts, test.targets, range(20, 28)),
    ):
        first, second = zip(*texts, strict=True)
        assert Counter(first) == Counter(f"Film {number} is about" for number in numbers)
        assert Counter(second) == Counter(f"cats and dogs {number}." for number in numbers)
        same = [a.split()[1] == b.split()[-1].rstrip(".") for a, b in texts]
        np.testing.assert_array_equal(targets, same)
        assert sum(same) == len(same) // 2
    again = load_review_halves(64, tmp_path)
    assert again.train[0].texts == train.texts
    inputs, classes = train.read([0])
    np.testing.assert_array_equal(inputs["tokens"][0], [padded(x, 64) for x in train.texts[0]])
    assert classes.tolist() == [train.targets[0]]
