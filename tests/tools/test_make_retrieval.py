"""Test the pairs of halves of reviews for the task `retrieval`."""

import importlib.util
from collections import Counter

import numpy as np

from keras_permix.data import load_retrieval
from tests.harness import ROOT

spec = importlib.util.spec_from_file_location(
    "make_retrieval", ROOT / "tools" / "make_retrieval.py"
)
make_retrieval = importlib.util.module_from_spec(spec)
spec.loader.exec_module(make_retrieval)

FIRST, SECOND = "\tFilm {number} is\nabout", "cats and dogs {number}. "


def write_reviews(folder, numbers):
    for number in numbers:
        label = "neg" if number % 2 else "pos"
        path = folder / label / f"{number}_7.txt"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{FIRST} {SECOND}".format(number=number), encoding="utf-8")


def test_each_half_is_in_one_pair_and_half_of_the_pairs_match(tmp_path, monkeypatch):
    write_reviews(tmp_path / "aclImdb" / "train", range(20))
    write_reviews(tmp_path / "aclImdb" / "test", range(20, 28))
    monkeypatch.setenv("KERAS_PERMIX_DATA", str(tmp_path))
    monkeypatch.setattr("sys.argv", ["make_retrieval.py", "--out", str(tmp_path / "pairs")])
    monkeypatch.setattr(make_retrieval, "HELD_OUT", 4)
    make_retrieval.main()
    data = load_retrieval(64, tmp_path / "pairs")
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
