"""Load the retrieval task: pairs of papers, or of halves of film reviews."""

from collections.abc import Callable
from functools import partial

import numpy as np

from keras_permix._typing import StrPath
from keras_permix.data.dataset import Dataset, split_source
from keras_permix.data.files import find_layout, read_lists, read_row, read_rows
from keras_permix.data.text.sets import load_texts
from keras_permix.data.text.sources import TextSource
from keras_permix.data.text.tokens import encode_texts

FILES = ("new_aan_pairs.train.tsv", "new_aan_pairs.eval.tsv", "new_aan_pairs.test.tsv")
COLUMNS = ("class", "id", "id2", "text", "text2")
CLASSES = {"0": 0, "0.0": 0, "1": 1, "1.0": 1}
RETRIEVAL_LABELS = ("unrelated", "cited")
HALVES_LABELS = ("another review", "same review")
HELD_OUT = 1000  # training pairs of halves for validation


def load_retrieval(
    max_sequence_length: int,
    data_dir: StrPath | None = None,
    *,
    encode: Callable[..., dict[str, np.ndarray]] = encode_texts,
) -> Dataset:
    r"""Load the pairs of papers of the Long Range Arena, by default encoded as bytes.

    The files are `new_aan_pairs.train.tsv`, `.eval.tsv` and `.test.tsv`, of 147,086, 18,090 and
    17,437 lines. Each line has five values separated by tabs: the class (0 or 1, optionally with
    ".0"), two ids, and two texts. There is no header and no quoting.

    Args:
        max_sequence_length: Int, tokens of a padded text; longer texts are truncated.
        data_dir: Folder of the files; `None`: the folder in `KERAS_PERMIX_DATA`.
        encode: Function from a list of pairs of texts and `max_sequence_length` to the arrays of a
            batch, such as the `text_encoder()` of a model.

    Returns:
        A `Dataset` whose parts are `(TextSource, None)`, with a `validation` part.

    Raises:
        ValueError: If a file is damaged, or a line does not have five values or a class of 0 or 1.
        FileNotFoundError: If a file is missing.

    Example:
        >>> from pathlib import Path
        >>> from keras_permix.data import load_retrieval
        >>> for part in ("train", "eval", "test"):
        ...     size = Path(f"new_aan_pairs.{part}.tsv").write_text("1\tA1\tB2\ta text\tanother\n")
        >>> inputs, labels = load_retrieval(16, data_dir=".").train[0].read([0])
        >>> inputs["tokens"].shape, labels.tolist()
        ((1, 2, 16), [1])

    Reference: [Tay et al., "Long Range Arena", 2020](https://arxiv.org/abs/2011.04006). The texts
    are from the ACL Anthology Network, [Radev et al., 2013](https://doi.org/10.1007/s10579-012-9211-2).
    """
    folder, _ = find_layout(data_dir, [FILES])
    read = partial(read_rows, columns=COLUMNS)
    pairs = [_read(rows) for rows in read_lists(folder, [(name, None) for name in FILES], read)]
    train, validation, test = (
        (TextSource(texts, classes, max_sequence_length, encode), None) for texts, classes in pairs
    )
    return Dataset("retrieval", train, test, RETRIEVAL_LABELS, validation)


def load_review_halves(
    max_sequence_length: int,
    data_dir: StrPath | None = None,
    *,
    encode: Callable[..., dict[str, np.ndarray]] = encode_texts,
) -> Dataset:
    """Load pairs of halves of IMDB's reviews, a small substitute for the pairs of papers.

    A pair is the first half of a review, and the second half of the same review (class 1) or of
    another one (class 0). Both classes are equally frequent, and every half occurs once. There are
    24,000 pairs for training, 1,000 for validation and 25,000 for testing, always the same for the
    same files.

    Args:
        max_sequence_length: Int, tokens of a padded text; longer texts are truncated.
        data_dir: Folder of IMDB, as in `load_texts`.
        encode: As in `load_retrieval`.

    Returns:
        A `Dataset` whose parts are `(TextSource, None)`.

    Raises:
        ValueError: If a file is damaged.
        FileNotFoundError: If a file is missing.

    Example:
        >>> from keras_permix.data import load_review_halves
        >>> load_review_halves(128).labels  # doctest: +SKIP
        ('another review', 'same review')

    Reference: [Maas et al., 2011](https://aclanthology.org/P11-1015) for the reviews.
    """
    reviews, rng = load_texts("imdb", max_sequence_length, data_dir), np.random.default_rng(0)

    def source(part):
        halves, classes = _halves(part[0].texts, rng)
        return TextSource(halves, classes, max_sequence_length, encode)

    train, test = source(reviews.train), source(reviews.test)
    held_out, train = split_source(train, HELD_OUT, len(train) - HELD_OUT)
    return Dataset("retrieval", train, (test, None), HALVES_LABELS, held_out)


def _halves(texts, rng):
    """Return shuffled pairs of halves of texts, and their classes."""
    same, others = np.array_split(rng.permutation(len(texts)), 2)
    pairs = np.stack([np.r_[same, others], np.r_[same, np.roll(others, 1)]], axis=1)
    pairs = pairs[rng.permutation(len(pairs))]
    words = [text.split() for text in texts]
    halves = [
        (" ".join(words[a][: len(words[a]) // 2]), " ".join(words[b][len(words[b]) // 2 :]))
        for a, b in pairs
    ]
    return halves, pairs[:, 0] == pairs[:, 1]


def _read(rows):
    """Return the pairs of texts in the rows of a file, and their classes."""
    rule = "A line must have a class of 0 or 1, two ids and two texts, separated by tabs."

    def read(row):
        return (row["text"], row["text2"]), CLASSES[row["class"]]

    return zip(*(read_row(row, read, rule) for row in rows), strict=True)
