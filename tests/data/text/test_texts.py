"""Test text data sets: file formats, labels, padding and errors."""

import csv
import gzip
import json
import lzma
import os
from pathlib import Path

import numpy as np
import pytest

from keras_permix.data import (
    Pipeline,
    encode_bytes,
    load_texts,
    pad_tokens,
)
from tests.data.images.miniature import trust

ROWS = [("a film", 0), ("schön", 1), ("no", 0), ("ja", 1)]


def write(path, rows=ROWS, **more):
    """Write rows as JSON lines, compressed according to the file extension."""
    lines = [json.dumps({"text": text, "label": label, **more}) for text, label in rows]
    pack = {".xz": lzma.compress, ".gz": gzip.compress}.get(path.suffix, bytes)
    path.write_bytes(pack("\n".join(lines).encode()))
    return path


def ascii_start(text):
    return ascii(text[:6])


def oracle(text, length):
    """Return each byte + 1, truncated or zero-padded to `length`."""
    tokens = [byte + 1 for byte in text.encode("utf-8")][:length]
    return tokens + [0] * (length - len(tokens))


def test_byte_tokens_start_at_one():
    assert encode_bytes("aé\x00").tolist() == [98, 196, 170, 1]


@pytest.mark.parametrize("name", ["a.jsonl", "a.jsonl.xz", "a.jsonl.gz"])
def test_batches_of_json_lines(tmp_path, name):
    write(tmp_path / name)
    data = load_texts("mine", 5, tmp_path, train=name, test=name)
    inputs, labels = Pipeline(*data.train, batch_size=4)[0]
    np.testing.assert_array_equal(inputs["tokens"], [oracle(text, 5) for text, _ in ROWS])
    np.testing.assert_array_equal(inputs["mask"], inputs["tokens"] != 0)
    assert inputs["tokens"].dtype == "int32" and inputs["mask"].dtype == bool
    np.testing.assert_array_equal(labels, [label for _, label in ROWS])
    assert (data.name, data.labels) == ("mine", ("0", "1"))


def test_pairs_in_tab_separated_values(tmp_path):
    lines = ["text\tother\tlabel", 'the "one"\ttwo\tyes', "three\tfour five\tno"]
    (tmp_path / "a.tsv").write_text("\n".join(lines), encoding="utf-8")
    files = dict(train="a.tsv", test="a.tsv", fields=("text", "other"))
    data = load_texts("mine", 9, tmp_path, **files)
    inputs, labels = Pipeline(*data.test, batch_size=2)[0]
    texts = [('the "one"', "two"), ("three", "four five")]
    pairs = [[oracle(text, 9) for text in pair] for pair in texts]
    np.testing.assert_array_equal(inputs["tokens"], pairs)
    np.testing.assert_array_equal(inputs["mask"], np.array(pairs) != 0)
    assert data.labels == ("no", "yes") and labels.tolist() == [1, 0]


@pytest.mark.parametrize(
    ("given", "names", "targets"),
    [
        ([-1, 0, 1], ("-1", "0", "1"), [0, 1, 2]),
        (["1", "2", "other"], ("1", "2", "other"), [0, 1, 2]),
        (["good", " bad", "good "], ("bad", "good"), [1, 0, 1]),
    ],
)
def test_each_distinct_label_becomes_a_class(tmp_path, given, names, targets):
    write(tmp_path / "a.jsonl", [("a", label) for label in given])
    data = load_texts("mine", 5, tmp_path, train="a.jsonl", test="a.jsonl")
    assert data.labels == names and data.train[0].targets.tolist() == targets


@pytest.mark.parametrize(
    "text", ["x" * 131_073, "a\u2028b\u2029c", "a\x85b", "a\x0bb\x0cc\x1cd"], ids=ascii_start
)
@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("start", ["", "\ufeff"])
def test_tsv_rows_end_only_at_newlines(tmp_path, text, end, start):
    lines = ["text\tlabel", f"{text}\t0", "", "b\t1", ""]
    (tmp_path / "a.tsv").write_bytes((start + end.join(lines)).encode())
    data = load_texts("mine", 5, tmp_path, train="a.tsv", test="a.tsv")
    assert data.train[0].texts == [text, "b"] and data.train[0].targets.tolist() == [0, 1]


def test_token_zero_is_not_masked():
    padded = pad_tokens([[0, 7]], 3)
    assert padded["mask"].tolist() == [[True, True, False]]


def test_known_set_in_one_file_with_two_splits(tmp_path, monkeypatch):
    lines = [
        json.dumps({"split": split, "text": split[:3], "label": label})
        for split, label in [("train", 1), ("validation", 0), ("train", 0)]
    ]
    (tmp_path / "sst2.jsonl.xz").write_bytes(lzma.compress("\n".join(lines).encode()))
    trust(monkeypatch, tmp_path)
    data = load_texts("sst2", 4, tmp_path, pad_to=(2,))
    assert data.train[0].texts == ["tra", "tra"] and data.test[0].texts == ["val"]
    assert data.train[0].targets.tolist() == [1, 0]
    assert data.labels == ("negative", "positive")


NEWS = """"3","Mills hire","A second ""shift"" begins,
at both mills."
"1","Talks end\\nearly","No word\\from either side"
"4","Probe lands","It sent a picture."
"2","Rowers first","By a length."
"""


def test_ag_news_archive(tmp_path):
    folder = tmp_path / "ag_news_csv"
    folder.mkdir()
    (folder / "train.csv").write_text(NEWS)
    (folder / "test.csv").write_text('"2","Draw","No goals."\n')
    data = load_texts("ag_news", 9, tmp_path)
    assert data.labels == ("World", "Sports", "Business", "Sci/Tech")
    (train, _), (test, _) = data.train, data.test
    assert train.texts == [
        'Mills hire A second "shift" begins,\nat both mills.',
        "Talks end early No word from either side",
        "Probe lands It sent a picture.",
        "Rowers first By a length.",
    ]
    assert train.targets.tolist() == [2, 0, 3, 1]
    assert test.texts == ["Draw No goals."] and test.targets.tolist() == [1]
    (folder / "test.csv").write_text('"0","Draw","No goals."\n')  # classes from 0
    with pytest.raises(ValueError, match="`class` must be 1 to 4.*test.csv, line 1 .KeyError: '0'"):
        load_texts("ag_news", 9, tmp_path)


BOTH = {"train": "a.jsonl", "test": "a.jsonl"}


def test_validation_part_is_drawn_from_training_texts(tmp_path):
    texts = [f"text {number}" for number in range(20)]
    write(tmp_path / "a.jsonl", [(text, n % 2) for n, text in enumerate(texts)])
    data = load_texts("mine", 5, tmp_path, **BOTH, validation=5)
    train, held = data.train[0].texts, data.validation[0].texts
    assert len(held) == 5 and sorted(train + held) == sorted(texts)
    assert train == sorted(train, key=texts.index)
    assert [texts.index(text) % 2 for text in held] == data.validation[0].targets.tolist()
    again, other = (
        load_texts("mine", 5, tmp_path, **BOTH, validation=5, split_seed=seed).validation[0].texts
        for seed in (0, 1)
    )
    assert again == held != other
    assert data.test[0].texts == texts
    assert load_texts("mine", 5, tmp_path, **BOTH).validation is None
    for predicts in ("class", "values", "labels"):
        with pytest.raises(ValueError, match="leave texts for training.*validation=20"):
            load_texts("mine", 5, tmp_path, **BOTH, validation=20, predicts=predicts)


@pytest.mark.parametrize(
    ("content", "arguments", "error", "rule"),
    [
        (
            "{}",
            {},
            ValueError,
            r"`name` must be one of ag_news, imdb, sst2, or .* Received: name='mine'",
        ),
        ("{}", {"train": "a.jsonl"}, ValueError, "`train` and `test`.*test=None"),
        (
            '{"text": "a"}',
            BOTH,
            ValueError,
            r"a `label`.*Received: {'text': 'a'} in .*a.jsonl, line 1",
        ),
        ('{"sentence": "a"}', BOTH, ValueError, r"set `fields`.*Received: {'sentence': 'a'} in"),
        ('{"text": "a", "label": 1}\n\n{"text": "b"}', BOTH, ValueError, r"a.jsonl, line 3$"),
        ('{"text": " ", "label": 1}', BOTH, ValueError, "not blank"),
        ('{"text": "a", "label": " "}', BOTH, ValueError, "not blank"),
        ('{"text": "a \\ud83d", "label": 1}', BOTH, ValueError, "must have a valid text"),
        ("[1]", BOTH, ValueError, "must be complete.*line 1 is not a JSON object"),
        (
            '{}\n\n{"te',
            BOTH,
            ValueError,
            "must be complete.*a.jsonl .line 3, character 2: Untermin",
        ),
        ("", BOTH, ValueError, r"must have rows. Received: \[0, 0\]"),
        (
            '{"text": "a", "label": "good"}\n' * 2,
            BOTH,
            ValueError,
            r"at least two classes, .*Received: name='mine', \['good'\] for training",
        ),
        (
            '{"text": "a", "label": 3000000}\n{"text": "b", "label": 0}',
            BOTH,
            ValueError,
            "count from 0. Received: a label of 3000000",
        ),
        (
            '\ufeff{"text": "a", "label": 0}\n{"text": "b", "label": 1}',
            {**BOTH, "validation": 1},
            ValueError,
            "at least two classes",
        ),
        ("{}", {**BOTH, "test": "b.jsonl"}, FileNotFoundError, "b.jsonl"),
        (
            '{"text": "a", "label": ["x", "y"]}',
            BOTH,
            ValueError,
            r"predicts='labels'.*\['x', 'y'\]",
        ),
        ("{}", {**BOTH, "splits": ["a"]}, ValueError, r"`splits` must name.*splits=\['a'\]"),
        ("{}", {**BOTH, "validation": "b.jsonl"}, ValueError, "integer.*validation='b.jsonl'"),
        (
            '{"text": "a", "label": 0}',
            {**BOTH, "labels": ["bad", "good"]},
            ValueError,
            r"must be None for predicts='class'.*labels=\['bad', 'good'\]",
        ),
    ],
)
def test_invalid_files_raise(tmp_path, content, arguments, error, rule):
    (tmp_path / "a.jsonl").write_text(content)
    with pytest.raises(error, match=rule):
        load_texts("mine", 5, tmp_path, **arguments)


def test_custom_file_with_the_name_of_a_known_one(tmp_path):
    (tmp_path / "esol.csv").write_text("text,label\ngood,1\nbad,0\n")
    data = load_texts("mine", 4, tmp_path, train="esol.csv", test="esol.csv")
    assert data.train[0].texts == ["good", "bad"]


@pytest.mark.parametrize("name", ["a.csv", "A.CSV", "a.tsv"])
def test_row_with_extra_values_raises(tmp_path, name):
    """A typical cause is an unquoted text with commas."""
    lines = [["text", "label"], ["a", "0"], ["well", "done", "1"]]
    mark = "\t" if name == "a.tsv" else ","
    (tmp_path / name).write_text("\n".join(mark.join(line) for line in lines))
    with pytest.raises(ValueError, match=f"complete.*{name} .line 3 has more values than columns"):
        load_texts("mine", 5, tmp_path, train=name, test=name)


def test_file_without_header_raises(tmp_path):
    (tmp_path / "a.csv").write_text("well done,good\nno,bad\n")
    rule = r"in \['text'\] and a `label`.*Received: {'well done': 'no', 'good': 'bad'} in"
    with pytest.raises(ValueError, match=rule):
        load_texts("mine", 5, tmp_path, train="a.csv", test="a.csv")


@pytest.mark.parametrize("name", ["a.csv", "a.tsv", "a.jsonl"])
def test_error_names_line_of_row(tmp_path, name):
    text = {
        "a.csv": 'text,label\n"a\nb",1\n ,0\n',
        "a.tsv": "text\tlabel\n\na\t1\n \t0\n",
        "a.jsonl": '{"text": "a", "label": 1}\n\n\n{"text": " ", "label": 1}\n',
    }[name]
    (tmp_path / name).write_text(text)
    with pytest.raises(ValueError, match=rf"not blank.*{name}, line 4$"):
        load_texts("mine", 5, tmp_path, train=name, test=name)


def test_long_csv_text_is_not_truncated(tmp_path):
    """By default, Python's CSV reader limits fields to 131,072 characters."""
    texts = ["a" * 200_000, "b"]
    (tmp_path / "a.csv").write_text("text,label\n" + "\n".join(f"{t},{t[0]}" for t in texts))
    limit = csv.field_size_limit()
    assert load_texts("mine", 5, tmp_path, train="a.csv", test="a.csv").train[0].texts == texts
    assert csv.field_size_limit() == limit


def test_class_without_texts_warns(tmp_path):
    write(tmp_path / "a.jsonl", [(f"{stars} stars", stars) for stars in (1, 2, 3)])
    with pytest.warns(UserWarning, match=r"no samples to train on for 1 of its 4 classes: \['0'\]"):
        data = load_texts("mine", 5, tmp_path, **BOTH)
    assert data.labels == (*"0123",) and data.train[0].targets.tolist() == [1, 2, 3]


def test_unterminated_quote_raises(tmp_path):
    (tmp_path / "a.csv").write_text('text,label\na,0\n"b,1\n')
    with pytest.raises(
        ValueError, match=r"must be complete.*a.csv \(line 3: unexpected end of data"
    ):
        load_texts("mine", 5, tmp_path, train="a.csv", test="a.csv")


def test_known_set_without_files_raises(tmp_path, monkeypatch):
    monkeypatch.delenv("KERAS_PERMIX_DATA", raising=False)
    with pytest.raises(FileNotFoundError, match="Set KERAS_PERMIX_DATA .* sst2.jsonl.xz"):
        load_texts("sst2", 5)
    layouts = r"contains sst2.jsonl.xz, or SST-2/train.tsv and SST-2/dev.tsv. Received: .*without"
    with pytest.raises(FileNotFoundError, match=layouts):
        load_texts("sst2", 5, tmp_path)


def parts_of(data):
    """Return the texts and class names of the training and the test part."""
    return [
        list(zip(part[0].texts, [data.labels[label] for label in part[0].targets], strict=True))
        for part in (data.train, data.test)
    ]


def test_imdb_archive(tmp_path):
    for part, texts in {"train": ("bad", "good"), "test": ("worse", "schön")}.items():
        for label, rating, text in zip(("neg", "pos"), (1, 10), texts, strict=True):
            folder = tmp_path / "aclImdb" / part / label
            folder.mkdir(parents=True)
            for number in (10, 9):  # sorted by number, not by file name
                (folder / f"{number}_{rating}.txt").write_text(f"{text} {number}", "utf-8")
    (tmp_path / "aclImdb" / "train" / "unsup").mkdir()
    (tmp_path / "aclImdb" / "train" / "unsup" / "0_0.txt").write_text("not labeled")
    (tmp_path / "aclImdb" / "train" / "neg" / "._0_1.txt").write_bytes(b"\xff")  # made by macOS
    train, test = parts_of(load_texts("imdb", 5, tmp_path))
    assert train == [
        (f"{text} {number}", label)
        for text, label in (("bad", "negative"), ("good", "positive"))
        for number in (9, 10)
    ]
    assert ("schön 9", "positive") in test and len(test) == 4


def test_sst2_in_glue_format(tmp_path):
    (tmp_path / "SST-2").mkdir()
    (tmp_path / "SST-2" / "train.tsv").write_text('sentence\tlabel\nno "wit \t0\na gem \t1\n')
    (tmp_path / "SST-2" / "dev.tsv").write_text("sentence\tlabel\nfine \t1\n")
    train, test = parts_of(load_texts("sst2", 5, tmp_path))
    assert train == [('no "wit', "negative"), ("a gem", "positive")]
    assert test == [("fine", "positive")]
    (tmp_path / "SST-2" / "dev.tsv").write_text("sentence\tlabel\nfine \t-1\n")
    with pytest.raises(ValueError, match=r"one of negative, positive, or its .*: \['-1'\]"):
        load_texts("sst2", 5, tmp_path)
    (tmp_path / "SST-2" / "dev.tsv").write_text("words\tlabel\nfine\t1\n")
    with pytest.raises(ValueError, match=r"a valid text in \['text'\] and a `label`"):
        load_texts("sst2", 5, tmp_path)


FOLDER = Path(os.environ.get("KERAS_PERMIX_DATA", "nowhere"))


@pytest.mark.skipif(
    not (FOLDER / "sst2.jsonl.xz").is_file(), reason="KERAS_PERMIX_DATA holds no SST-2"
)
def test_real_sst2():
    data = load_texts("sst2", 64)
    counts = [(len(part[0]), int(part[0].targets.sum())) for part in (data.train, data.test)]
    assert counts == [(67349, 37569), (872, 444)]


@pytest.mark.skipif(
    not (FOLDER / "imdb_train.jsonl.xz").is_file(), reason="KERAS_PERMIX_DATA holds no IMDB"
)
def test_real_imdb():
    data = load_texts("imdb", 16)
    counts = [(len(part[0]), int(part[0].targets.sum())) for part in (data.train, data.test)]
    assert counts == [(25000, 12500)] * 2


def test_class_without_test_samples_warns(tmp_path):
    (tmp_path / "train.csv").write_text("text,label\na,good\nb,Good\nc,bad\n", encoding="utf-8")
    (tmp_path / "test.csv").write_text("text,label\na,good\nc,bad\n", encoding="utf-8")
    rule = r"mine has no samples to test on for 1 of its 3 classes: \['Good'\]"
    with pytest.warns(UserWarning, match=rule) as caught:
        load_texts("mine", 5, tmp_path, train="train.csv", test="test.csv")
    assert caught[0].filename == __file__
