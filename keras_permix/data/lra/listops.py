"""ListOps: nested operations on digits, whose answer is a digit."""

import hashlib
import itertools
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from keras_permix._typing import StrPath
from keras_permix.data.cached import cached_samples
from keras_permix.data.dataset import Dataset
from keras_permix.data.files import need_folder, read_rows
from keras_permix.data.lra.listops_trees import draw_listops
from keras_permix.data.lra.rounds import rounds
from keras_permix.data.text.token_source import TokenSource

# The index of a token is its id; 0 is padding.
LISTOPS_VOCABULARY = ("", *"0123456789", "[MIN", "[MAX", "[MED", "[SM", "]")
IDS = {token: number for number, token in enumerate(LISTOPS_VOCABULARY) if token}
DIGITS = tuple("0123456789")
FILES = ("basic_train.tsv", "basic_val.tsv", "basic_test.tsv")
TREES = 1024  # drawn at once
# After so many rounds without any sequence, or so many times as many as there are different ones
# without a new one, no more are looked for.
ROUNDS_WITHOUT, REPEATED = 100, 20


def encode_listops(text: str) -> np.ndarray:
    """A text of ListOps as token ids, the indices into `LISTOPS_VOCABULARY`.

    Args:
        text: Tokens with spaces between them. Parentheses are dropped.

    Returns:
        uint8 array of one id per token.

    Raises:
        ValueError: for an unknown token, or a text without any.

    Example:

    >>> from keras_permix.data import encode_listops
    >>> encode_listops("( ( ( [MAX 4 ) 3 ) ] )").tolist()
    [12, 5, 4, 15]
    """
    tokens = text.replace("(", " ").replace(")", " ").split()
    unknown = set(tokens) - set(IDS)
    if unknown or not tokens:
        raise ValueError(
            f"ListOps must be of the tokens {' '.join(IDS)}, and parentheses. "
            f"Received: {sorted(unknown)[:5]} in {text[:60]!r}"
        )
    return np.array([IDS[token] for token in tokens], "uint8")


def listops_tokenizer() -> str:
    """The text of a `tokenizer.json` that reads ListOps as `encode_listops` does.

    Returns:
        A str, for the `tokenizer` of a model or a `SubwordEncoder`.

    Example:

    >>> from keras_permix.data import SubwordEncoder, listops_tokenizer
    >>> encode = SubwordEncoder(listops_tokenizer(), max_sequence_length=6)
    >>> encode(["( ( ( [MAX 4 ) 3 ) ] )"], 6)["tokens"].tolist()
    [[12, 5, 4, 15, 0, 0]]
    """
    parts: dict[str, Any] = {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [],
        "normalizer": {"type": "Replace", "pattern": {"Regex": "[()]"}, "content": " "},
        "pre_tokenizer": {"type": "WhitespaceSplit"},
        "post_processor": None,
        "decoder": None,
        "model": {"type": "WordLevel", "vocab": IDS, "unk_token": "[UNK]"},  # which is no token
    }
    return json.dumps(parts, indent=2)


def generated_listops(
    max_sequence_length: int,
    *,
    train: int = 96_000,
    validation: int = 2_000,
    test: int = 2_000,
    min_tokens: int = 501,
    max_tokens: int = 1_999,
    max_depth: int = 10,
    max_arguments: int = 10,
    nesting: float = 0.25,
    seed: int = 0,
    pad_to: Sequence[int] = (),
) -> Dataset:
    """Make the ListOps of the Long Range Arena, or smaller ones.

    An operator has 2 to `max_arguments` arguments, all numbers equally likely. An argument is an
    operator with the probability `nesting`, above `max_depth`; else a digit. Operators are the
    smallest (MIN) and largest (MAX) of the arguments, their median rounded down (MED), and their
    sum modulo 10 (SM). Of what is drawn that way, the sequences of `min_tokens` to `max_tokens`
    tokens are kept, parentheses not counted, and none comes twice. The class of a sequence is its
    answer.

    The same numbers give the same sequences, however many processors there are. A vocabulary of 16
    token ids is enough: `LISTOPS_VOCABULARY`. Sets of 10,000 or more are made once, and kept in
    Keras' cache (`KERAS_HOME`).

    Args:
        max_sequence_length: Tokens of a padded row, at least `max_tokens`.
        train, validation, test: Number of sequences.
        min_tokens, max_tokens: Length of a sequence, both included; the shortest there is has 4.
        max_depth: Depth of the deepest digits, where the outermost operator is at depth 1.
        max_arguments: The most arguments of an operator, 2 to 100.
        nesting: Probability that an argument is an operator.
        seed: Integer ≥ 0.

    Returns:
        A `Dataset` whose parts are `(TokenSource, None)`, with a `validation` part.

    Raises:
        ValueError: if a number is out of range, or there are too few such sequences.

    Example:

    >>> from keras_permix.data import LISTOPS_VOCABULARY, generated_listops
    >>> sizes = dict(train=8, validation=2, test=2, min_tokens=5, max_tokens=15, max_depth=3)
    >>> data = generated_listops(16, **sizes)
    >>> len(data.train[0]), data.train[0].read([0])[0]["tokens"].shape
    (8, (1, 16))

    Reference: [Nangia & Bowman, 2018](https://aclanthology.org/N18-4013); the numbers are those of
    [Tay et al., "Long Range Arena", 2020](https://arxiv.org/abs/2011.04006), and the released code.
    """
    counts = (train, validation, test)
    rules = {
        "min_tokens": min_tokens,
        "max_tokens": max_tokens,
        "max_depth": max_depth,
        "max_arguments": max_arguments,
        "nesting": nesting,
    }
    _check_numbers(counts, max_sequence_length, seed, **rules)
    total = sum(counts)
    parameters = {"version": 1, "sequences": total, "seed": seed, **rules}
    content = json.dumps(parameters, sort_keys=True).encode()
    made = cached_samples(total, "listops", content, lambda: _make(total, seed, rules))
    return _dataset(
        made["tokens"], made["lengths"], made["answers"], counts, max_sequence_length, pad_to
    )


def load_listops(
    max_sequence_length: int, data_dir: StrPath | None = None, *, pad_to: Sequence[int] = ()
) -> Dataset:
    r"""Load ListOps from the files that the Long Range Arena gives away.

    They are `basic_train.tsv`, `basic_val.tsv` and `basic_test.tsv`, of 96,000, 2,000 and 2,000
    rows, with the columns "Source", a text as `encode_listops` reads it, and "Target", its answer.

    Args:
        max_sequence_length: Tokens of a padded row.
        data_dir: Folder of the files; `None`: that of `KERAS_PERMIX_DATA`.
        pad_to: Lengths that batches are padded to, as in `TokenSource`.

    Returns:
        A `Dataset` whose parts are `(TokenSource, None)`, with a `validation` part.

    Raises:
        ValueError: for a damaged file, an unknown token, an answer that is no digit, or a sequence
            of more than `max_sequence_length` tokens, whose answer would not be that of its
            beginning.
        FileNotFoundError: for a missing file.

    Example:

    >>> from pathlib import Path
    >>> from keras_permix.data import load_listops
    >>> for part in ("train", "val", "test"):
    ...     size = Path(f"basic_{part}.tsv").write_text("Source\tTarget\n( [MAX 4 3 ] )\t4\n")
    >>> inputs, labels = load_listops(6, data_dir=".").train[0].read([0])
    >>> inputs["tokens"].tolist(), labels.tolist()
    ([[12, 5, 4, 15, 0, 0]], [4])

    Reference: [Tay et al., "Long Range Arena", 2020](https://arxiv.org/abs/2011.04006).
    """
    folder = need_folder(data_dir, FILES)
    parts = [_read(Path(folder) / name) for name in FILES]
    rows = [tokens for part in parts for tokens, _ in part]
    answers = np.array([answer for part in parts for _, answer in part], "uint8")
    lengths = np.array([len(tokens) for tokens in rows])
    if lengths.max() > max_sequence_length:
        raise ValueError(
            "`max_sequence_length` must be that of the longest sequence or more. "
            f"Received: max_sequence_length={max_sequence_length}, and a sequence of "
            f"{lengths.max()} tokens"
        )
    counts = [len(part) for part in parts]
    return _dataset(np.concatenate(rows), lengths, answers, counts, max_sequence_length, pad_to)


def _dataset(tokens, lengths, answers, counts, max_sequence_length, pad_to):
    source = TokenSource(tokens, lengths, answers, max_sequence_length, pad_to)
    first, second = counts[0], counts[0] + counts[1]
    train, validation, test = (
        (source[some], None)
        for some in (slice(first), slice(first, second), slice(second, None))
    )  # fmt: skip
    return Dataset("listops", train, test, DIGITS, validation)


def _read(path):
    rows = read_rows(path)
    if not rows:
        raise ValueError(f"A file of ListOps must hold a row. Received: {path} without any")
    found = []
    for number, row in enumerate(rows, start=2):  # below the header
        try:
            answer = DIGITS.index(str(row.get("Target")).strip())
            found.append((encode_listops(row.get("Source") or ""), answer))
        except ValueError as error:
            raise ValueError(
                'A row of ListOps must have a "Source" of tokens and a "Target" from 0 to 9. '
                f"Received: {str(row)[:100]} in line {number} of {path} ({error})"
            ) from error
    return found


def _make(total: int, seed: int, rules: dict[str, Any]) -> dict[str, np.ndarray]:
    """The first `total` different sequences of all that a seed gives."""
    rows, answers = [], []
    for row, answer in itertools.islice(_different(seed, rules), total):
        rows.append(row)
        answers.append(answer)
    lengths = np.array([len(row) for row in rows])
    return {
        "tokens": np.concatenate(rows),
        "lengths": lengths.astype("int32"),
        "answers": np.array(answers, "uint8"),
    }


def _different(seed: int, rules: dict[str, Any]) -> Iterator[tuple[np.ndarray, int]]:
    """Sequences that were not there before, in the order that they are drawn in."""
    seen: set[bytes] = set()
    empty = stale = 0  # rounds that kept none, and sequences that were there, one after the other
    for drawn in rounds(lambda rng: draw_listops(rng, TREES, **rules), seed):
        before = len(seen)
        for tokens, lengths, answers in drawn:
            for row, answer in zip(np.split(tokens, np.cumsum(lengths)), answers, strict=False):
                digest = hashlib.blake2b(row.tobytes(), digest_size=16).digest()
                if digest not in seen:
                    seen.add(digest)
                    yield row, answer
        kept = sum(len(answers) for _, _, answers in drawn)
        empty = 0 if kept else empty + 1
        stale = stale + kept if len(seen) == before else 0
        if empty == ROUNDS_WITHOUT or stale > REPEATED * len(seen):
            raise ValueError(
                "There must be as many different sequences as are asked for. Ask for fewer, or "
                f"allow longer and deeper ones. Received: {len(seen)} of {rules}, and then "
                f"{stale} that were there, or none in {empty * len(drawn) * TREES} trees"
            )


def _check_numbers(counts, max_sequence_length, seed, **rules):
    if min(counts) < 1 or seed < 0:
        raise ValueError(
            "`train`, `validation` and `test` must be 1 or more, and `seed` 0 or more. "
            f"Received: {counts}, seed={seed}"
        )
    if not 4 <= rules["min_tokens"] <= rules["max_tokens"] <= max_sequence_length:
        raise ValueError(
            "Lengths must be 4 ≤ `min_tokens` ≤ `max_tokens` ≤ `max_sequence_length`, which is "
            "the model's. "
            f"Received: {rules['min_tokens']}, {rules['max_tokens']}, {max_sequence_length}"
        )
    if rules["max_depth"] < 2 or not 2 <= rules["max_arguments"] <= 100:
        raise ValueError(
            "`max_depth` must be 2 or more, and `max_arguments` from 2 to 100. "
            f"Received: {rules['max_depth']}, {rules['max_arguments']}"
        )
    if not 0 <= rules["nesting"] <= 1:
        raise ValueError(f"`nesting` must be from 0 to 1. Received: {rules['nesting']}")
