"""Generate or read ListOps: nested operations on digits, whose result is a digit."""

import hashlib
import itertools
import json
from collections.abc import Sequence
from typing import Any

import numpy as np

from keras_permix._typing import StrPath
from keras_permix.data.cached import cached_arrays, draw_rounds
from keras_permix.data.dataset import Dataset, split_source
from keras_permix.data.files import find_layout, read_lists, read_row
from keras_permix.data.lra.listops_trees import draw_listops
from keras_permix.data.text.sources import TokenSource
from keras_permix.utils.checks import check_integer, plain

# The index of a token is its id; 0 is padding.
LISTOPS_VOCABULARY = ("", *"0123456789", "[MIN", "[MAX", "[MED", "[SM", "]")
IDS = {token: number for number, token in enumerate(LISTOPS_VOCABULARY) if token}
DIGITS = tuple("0123456789")
FILES = ("basic_train.tsv", "basic_val.tsv", "basic_test.tsv")
TREES = 1024  # drawn at once
ROUNDS_WITHOUT = 100  # rounds without a sequence, after which drawing stops
REPEATED = 20  # repeated sequences per different one, after which drawing stops


def listops_tokenizer() -> str:
    """Return the content of a `tokenizer.json` that encodes ListOps, without parentheses.

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
        "model": {"type": "WordLevel", "vocab": IDS, "unk_token": "[UNK]"},  # not a token
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
    """Generate the ListOps of the Long Range Arena, or smaller ones.

    An operator has 2 to `max_arguments` arguments, all numbers equally likely. An argument at a
    depth less than `max_depth` is an operator with the probability `nesting`; all others are
    digits. The operators are:

    - MIN and MAX, the smallest and the largest argument;
    - MED, the median, rounded down;
    - SM, the sum modulo 10.

    Sequences of `min_tokens` to `max_tokens` tokens are kept, without parentheses and duplicates.
    The class of a sequence is its result. The token ids are those of `LISTOPS_VOCABULARY`.

    The same arguments give the same sequences on any number of processors. Sets of 10,000 or more
    are generated once and cached in the folder of Keras (`KERAS_HOME`).

    Args:
        max_sequence_length: Int, tokens of a padded sequence, at least `max_tokens`.
        train, validation, test: Int, number of sequences. Default: those of the Long Range Arena.
        min_tokens, max_tokens: Int, lengths, both included, from 4. Default: 501 and 1,999.
        max_depth: Int, depth of the deepest digits; the root is at depth 1. Default: 10.
        max_arguments: Int, most arguments of an operator, at least 2. Default: 10.
        nesting: Float, probability that an argument is an operator. Default: 0.25.
        seed: Int ≥ 0. Default: 0.
        pad_to: Lengths that batches are padded to, as in `TokenSource`. Default: `()`.

    Returns:
        A `Dataset` of parts `(TokenSource, None)`, with a `validation` part.

    Raises:
        ValueError: If `max_tokens` exceeds `max_sequence_length`, or there are too few such
            sequences.

    Example:
        >>> from keras_permix.data import LISTOPS_VOCABULARY, generated_listops
        >>> sizes = dict(train=8, validation=2, test=2, min_tokens=5, max_tokens=15, max_depth=3)
        >>> data = generated_listops(16, **sizes)
        >>> len(data.train[0]), data.train[0].read([0])[0]["tokens"].shape
        (8, (1, 16))

    Reference: [Nangia & Bowman, 2018](https://aclanthology.org/N18-4013). The numbers are those of
    [Tay et al., "Long Range Arena", 2020](https://arxiv.org/abs/2011.04006), and the released code.
    """
    given = {"train": (train, 1), "validation": (validation, 0), "test": (test, 1)}
    counts = [check_integer(name, count, least) for name, (count, least) in given.items()]
    rules = {
        "min_tokens": min_tokens,
        "max_tokens": max_tokens,
        "max_depth": max_depth,
        "max_arguments": check_integer("max_arguments", max_arguments, 2),
        "nesting": nesting,
    }
    _check_longest(max_tokens, max_sequence_length)
    total = sum(counts)
    parameters = {"version": 1, "sequences": total, "seed": seed, **rules}
    content = json.dumps(plain(parameters), sort_keys=True).encode()
    made = cached_arrays("listops", content, lambda: _make(total, seed, rules), count=total)
    source = TokenSource(
        made["tokens"], made["lengths"], made["answers"], max_sequence_length, pad_to
    )
    train_part, validation_part, test_part = split_source(source, *counts)
    return Dataset("listops", train_part, test_part, DIGITS, validation_part)


def load_listops(
    max_sequence_length: int, data_dir: StrPath | None = None, *, pad_to: Sequence[int] = ()
) -> Dataset:
    r"""Load ListOps from the files of the Long Range Arena.

    The files are `basic_train.tsv`, `basic_val.tsv` and `basic_test.tsv`, of 96,000, 2,000 and
    2,000 rows. The column "Source" holds a text, "Target" its result.

    Args:
        max_sequence_length, pad_to: As in `generated_listops`.
        data_dir: Folder of the files. `None`: the folder in `KERAS_PERMIX_DATA`.

    Returns:
        A `Dataset` of parts `(TokenSource, None)`, with a `validation` part.

    Raises:
        ValueError: If a file is damaged, a token is unknown, or a target is not a digit. If a
            sequence is longer than `max_sequence_length`, since truncation changes its result.
        FileNotFoundError: If a file is missing.

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
    folder, _ = find_layout(data_dir, [FILES])
    parts = [_read(rows) for rows in read_lists(folder, [(name, None) for name in FILES])]
    rows, answers = zip(*(pair for part in parts for pair in part), strict=True)
    lengths = [len(tokens) for tokens in rows]
    _check_longest(max(lengths), max_sequence_length)
    source = TokenSource(np.concatenate(rows), lengths, answers, max_sequence_length, pad_to)
    train, validation, test = split_source(source, *map(len, parts))
    return Dataset("listops", train, test, DIGITS, validation)


def _read(rows):
    rule = 'A row of ListOps must have a "Source" of tokens and a "Target" from 0 to 9.'

    def read(row):
        return _encode(row["Source"]), DIGITS.index(row["Target"].strip())

    return [read_row(row, read, rule) for row in rows]


def _encode(text):
    """Encode a text as indices into `LISTOPS_VOCABULARY`, without parentheses."""
    tokens = text.replace("(", " ").replace(")", " ").split()
    if not tokens or not set(tokens) <= set(IDS):
        raise ValueError(f"ListOps must consist of {' '.join(IDS)} ( ). Received: {text[:60]!r}")
    return np.array([IDS[token] for token in tokens], "uint8")


def _make(total: int, seed: int, rules: dict[str, Any]) -> dict[str, np.ndarray]:
    """Generate the first `total` different sequences of a seed."""
    found: dict[bytes, Any] = {}  # digest -> a sequence and its result, in the order of drawing
    empty = stale = 0  # successive rounds without a sequence, and successive repeated sequences
    for drawn in draw_rounds(lambda rng: draw_listops(rng, TREES, **rules), seed):
        before = len(found)
        for tokens, lengths, answers in drawn:
            for row, answer in zip(np.split(tokens, np.cumsum(lengths)), answers, strict=False):
                digest = hashlib.blake2b(row.tobytes(), digest_size=16).digest()
                found.setdefault(digest, (row, answer))
        if len(found) >= total:
            break
        kept = sum(len(answers) for _, _, answers in drawn)
        empty = 0 if kept else empty + 1
        stale = stale + kept if len(found) == before else 0
        if empty == ROUNDS_WITHOUT or stale > REPEATED * len(found):
            given = f"{len(found)} sequences, then {stale} repeated ones, or none in {empty} rounds"
            rule = f"There must be {total} different sequences"
            raise ValueError(f"{rule}. Received: {rules}, which give {given}")
    rows, answers = zip(*itertools.islice(found.values(), total), strict=True)
    return {
        "tokens": np.concatenate(rows),
        "lengths": np.array([len(row) for row in rows], "int32"),
        "answers": np.array(answers, "uint8"),
    }


def _check_longest(longest, max_sequence_length):
    if longest > max_sequence_length:  # Truncation would change the results.
        size = f"{max_sequence_length=}"
        raise ValueError(f"`max_sequence_length` must be at least {longest}. Received: {size}")
