"""Test ListOps: generated sequences, files, tokens and errors."""

import hashlib
import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from keras_permix.data import (
    LISTOPS_VOCABULARY,
    Pipeline,
    SubwordEncoder,
    TokenSource,
    cached,
    generated_listops,
    listops_tokenizer,
    load_listops,
)
from keras_permix.data.lra import listops
from keras_permix.data.lra.listops_trees import draw_listops
from tests.data.lra.solve import solve

SAMPLE = Path(__file__).parent / "listops"
SMALL = dict(train=60, validation=20, test=20, min_tokens=10, max_tokens=40, max_depth=4)


def texts(source):
    rows = source.read(np.arange(len(source)))[0]["tokens"]
    return [" ".join(LISTOPS_VOCABULARY[token] for token in row if token) for row in rows]


def lengths_of(source):
    return source.read(np.arange(len(source)))[0]["mask"].sum(axis=1)


def parts(data):
    return [data.train[0], data.validation[0], data.test[0]]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("( ( ( ( [MIN 4 ) 3 ) 9 ) ] )", (3, 2, 3)),
        ("[MED 1 4 ]", (2, 2, 2)),
        ("[MED 9 1 [SM 7 6 ] ]", (3, 3, 3)),
        ("[MAX 0 [MIN 8 9 ] 1 2 ]", (8, 3, 4)),
    ],
)
def test_oracle_solves_known_expressions(text, found):
    assert solve(text) == found


def test_generated_answers_are_correct():
    data = generated_listops(64, **SMALL, max_arguments=5)
    for source in parts(data):
        solved = [solve(text) for text in texts(source)]
        assert [answer for answer, _, _ in solved] == source.targets.tolist()
        assert max(depth for _, depth, _ in solved) == 4
        assert max(most for _, _, most in solved) == 5
        assert lengths_of(source).min() >= 10 and lengths_of(source).max() <= 40
    assert [len(source) for source in parts(data)] == [60, 20, 20]
    assert (data.name, data.labels) == ("listops", tuple("0123456789"))


def test_sizes_of_the_long_range_arena():
    data = generated_listops(2000, train=30, validation=5, test=5)
    solved = [solve(text) for text in texts(data.train[0])]
    assert [answer for answer, _, _ in solved] == data.train[0].targets.tolist()
    assert max(depth for _, depth, _ in solved) == 10 == max(most for _, _, most in solved)
    lengths = lengths_of(data.train[0])
    assert 500 < lengths.min() and lengths.max() < 2000 and 800 < lengths.mean() < 1250


def test_draws_follow_the_expected_distribution():
    """Count arguments, operators, digits and nesting in trees of two levels, without rejection."""
    rules = dict(min_tokens=4, max_tokens=999, max_depth=3, max_arguments=6, nesting=0.3)
    tokens, lengths, _ = draw_listops(np.random.default_rng(0), 4000, **rules)
    assert len(lengths) == 4000
    rows = [row.tolist() for row in np.split(tokens, np.cumsum(lengths)[:-1])]
    arguments, nested = np.zeros(7), 0
    for row in rows:
        inner = [i for i, token in enumerate(row[1:], 1) if token > 10 and token != 15]
        nested += len(inner)
        inside = sum(row.index(15, i) - i for i in inner)
        arguments[len(row) - 2 - inside] += 1
    np.testing.assert_allclose(arguments[2:], 800, atol=120)
    np.testing.assert_allclose(nested / (4000 * 4), 0.3, atol=0.02)
    counts = np.bincount(tokens, minlength=16)
    np.testing.assert_allclose(counts[1:11] / counts[1:11].mean(), 1, atol=0.06)
    np.testing.assert_allclose(counts[11:15] / counts[11:15].mean(), 1, atol=0.06)
    assert counts[0] == 0 and counts[15] == counts[11:15].sum()


def test_sequences_are_unique():
    data = generated_listops(8, train=400, validation=50, test=50, min_tokens=4, max_tokens=5)
    all_texts = [text for source in parts(data) for text in texts(source)]
    assert len(set(all_texts)) == len(all_texts) == 500


def test_sequences_depend_only_on_seed_and_rules(monkeypatch):
    first = texts(generated_listops(64, **SMALL).train[0])
    assert texts(generated_listops(64, **SMALL, seed=1).train[0]) != first
    monkeypatch.setattr(cached, "ThreadPoolExecutor", lambda _: ThreadPoolExecutor(1))
    assert texts(generated_listops(64, **SMALL).train[0]) == first
    # The sizes of the parts do not change the sequences.
    assert texts(generated_listops(64, **{**SMALL, "train": 30, "test": 50}).train[0]) == first[:30]


def test_rare_lengths_are_found(monkeypatch):
    monkeypatch.setattr(listops, "TREES", 1)
    data = generated_listops(64, **{**SMALL, "min_tokens": 40})
    assert {int(length) for source in parts(data) for length in lengths_of(source)} == {40}
    monkeypatch.setattr(listops, "ROUNDS_WITHOUT", 2)
    with pytest.raises(ValueError, match="different sequences.*or none in 2 rounds"):
        generated_listops(64, **{**SMALL, "min_tokens": 40})


def test_all_possible_sequences_are_found(monkeypatch):
    """There are 400 sequences of one operator and two digits. Small rounds repeat many of them."""
    monkeypatch.setattr(listops, "TREES", 8)
    few = dict(min_tokens=4, max_tokens=4, max_depth=3, max_arguments=5, nesting=0.1)
    data = generated_listops(4, **few, train=390, validation=5, test=5)
    assert len({text for source in parts(data) for text in texts(source)}) == 400
    with pytest.raises(ValueError, match=r"Received: .*which give 400 sequences, then .* repeated"):
        generated_listops(4, **few, train=391, validation=5, test=5)


def test_large_set_is_cached(tmp_path, monkeypatch):
    monkeypatch.setenv("KERAS_HOME", str(tmp_path))
    generated_listops(64, **SMALL)
    assert not list(tmp_path.rglob("*"))  # Small sets are not cached.
    monkeypatch.setattr(cached, "MANY", 1)
    made = generated_listops(64, **SMALL)
    with monkeypatch.context() as context:
        context.setattr(listops, "draw_listops", None)
        read = generated_listops(64, **SMALL)
    for ours, theirs in zip(parts(read), parts(made), strict=True):
        assert texts(ours) == texts(theirs) and ours.targets.tolist() == theirs.targets.tolist()
    other = generated_listops(64, **SMALL, seed=1)
    assert texts(other.test[0]) != texts(made.test[0])


def test_batches_are_padded_with_a_mask():
    source = TokenSource(np.array([5, 6, 7, 8], "uint8"), [3, 1], [4, 9], 4)
    inputs, labels = Pipeline(source, batch_size=2)[0]
    assert inputs["tokens"].tolist() == [[5, 6, 7, 0], [8, 0, 0, 0]]
    assert inputs["mask"].sum(axis=1).tolist() == [3, 1] and labels.tolist() == [4, 9]
    assert (inputs["tokens"].dtype, inputs["mask"].dtype) == ("int32", bool)
    source.max_sequence_length = 2
    assert source[1:].read([0])[0]["tokens"].tolist() == [[8, 0]]
    assert source.read([0])[0]["tokens"].tolist() == [[5, 6]]


def test_long_range_arena_files():
    data = load_listops(64, SAMPLE)
    assert [len(source) for source in parts(data)] == [6, 3, 3]
    for name, source in zip(listops.FILES, parts(data), strict=True):
        lines = (SAMPLE / name).read_text().splitlines()[1:]
        rows = [line.split("\t") for line in lines]
        plain = [" ".join(text.replace("(", "").replace(")", "").split()) for text, _ in rows]
        assert texts(source) == plain
        assert source.targets.tolist() == [int(target) for _, target in rows]
        assert source.targets.tolist() == [solve(text)[0] for text, _ in rows]


GOOD = "Source\tTarget\n( ( [MIN 1 ) ] )\t1\n"


@pytest.mark.parametrize(
    ("content", "rule"),
    [
        (
            "Source\tTarget\n[FIRST 1 2 ]\t1\n",
            r"basic_val.tsv, line 2 \(ValueError: ListOps must consist of .*'\[FIRST 1",
        ),
        (GOOD + "[MIN 1 2 ]\t10\n", '"Target" from 0 to 9.*basic_val.tsv, line 3'),
        (GOOD + "[MIN 1 2 ]\n", '"Target" from 0 to 9'),
        (GOOD + "\t3\n", '"Source" of tokens'),
        ("Source\tTarget\n", r"must have rows. Received: \[1, 0, 1\].*basic_val.tsv"),
        ("[MIN 1 2 ]\t1\n[MIN 1 2 ]\t1\n", '"Source" of tokens and a "Target"'),
    ],
)
def test_damaged_files_raise(tmp_path, content, rule):
    for name in listops.FILES:
        (tmp_path / name).write_text(content if name == "basic_val.tsv" else GOOD)
    with pytest.raises(ValueError, match=rule):
        load_listops(64, tmp_path)


def test_missing_files_and_long_sequences_raise(tmp_path, monkeypatch):
    monkeypatch.delenv("KERAS_PERMIX_DATA", raising=False)
    with pytest.raises(FileNotFoundError, match="Set KERAS_PERMIX_DATA .* basic_train.tsv"):
        load_listops(64)
    with pytest.raises(
        FileNotFoundError, match="contains basic_train.tsv and .* Received: .* without these files"
    ):
        load_listops(64, tmp_path)
    with pytest.raises(ValueError, match="must be at least .* Received: max_sequence_length=8"):
        load_listops(8, SAMPLE)


@pytest.mark.parametrize(
    ("changes", "rule"),
    [
        (dict(seed=np.int64(-1)), "expected non-negative integer"),
        (dict(min_tokens=41), "different sequences.*'min_tokens': 41, 'max_tokens': 40"),
        (dict(max_tokens=65), "must be at least 65. Received: max_sequence_length=64"),
        (dict(max_depth=1), "different sequences"),
        (dict(max_arguments=1), "at least 2. Received: max_arguments=1"),
        (dict(test=0), "`test` must be a positive integer.*test=0"),
        (
            dict(max_depth=2, max_arguments=2, min_tokens=4, train=1000),
            "different sequences.* 400 sequences",
        ),
    ],
)
def test_invalid_arguments_raise(changes, rule):
    with pytest.raises(ValueError, match=rule):
        generated_listops(64, **{**SMALL, **changes})


def test_unknown_tokens_raise():
    for text in ("MIN 1 2 X", "( )"):
        with pytest.raises(ValueError, match=f"Received: {re.escape(repr(text))}"):
            listops._encode(text)


def test_tokenizer():
    pytest.importorskip("tokenizers")
    encode = SubwordEncoder(listops_tokenizer(), max_sequence_length=64)
    texts = ["( ( ( [MAX 4 ) 3 ) ] )", "[SM 0 9 [MED 1 2 3 ] [MIN 5 6 ] ]", "7"]
    arrays = encode(texts, 64)
    for text, tokens, mask in zip(texts, arrays["tokens"], arrays["mask"], strict=True):
        words = text.replace("(", "").replace(")", "").split()
        assert tokens[mask].tolist() == [LISTOPS_VOCABULARY.index(word) for word in words]
    with pytest.raises(ValueError, match=r"tokens of the `tokenizer`. Received: '\[SM 0 9\]'"):
        encode(["[SM 0 9]"], 64)


def test_sequences_of_a_version_never_change():
    """Scores depend on these sequences. If they change, increase `version` and update the hash."""
    digest = hashlib.sha256()
    for source in parts(generated_listops(64, **SMALL)):
        digest.update("\n".join(texts(source)).encode())
        digest.update(bytes(source.targets.tolist()))
    assert digest.hexdigest() == (
        "c13f653a96ddeb2b500ac42d9f7776e0daf7313891b91e758f64ba4d547d403f"
    )
