"""Load sets of labeled texts from files with one sample per line."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from keras_permix._typing import StrPath
from keras_permix.data.dataset import Dataset, check_classes, warn_of_missing
from keras_permix.data.files import Files, read_parts, read_row, read_rows
from keras_permix.data.targets import check_unused, class_of, target_reader
from keras_permix.data.text.sources import TextSource
from keras_permix.data.text.tokens import encode_texts, is_whole
from keras_permix.utils.checks import check_integer
from keras_permix.utils.tables import shown

MANY = 1000  # classes; a larger number must not exceed the number of samples
SENTIMENT = ("negative", "positive")
TOPICS = ("World", "Sports", "Business", "Sci/Tech")
NEWS = dict(zip("1234", TOPICS, strict=True))  # the classes in its files
LABELS = {"ag_news": TOPICS, "imdb": SENTIMENT, "sst2": SENTIMENT}


def load_texts(
    name: str,
    max_sequence_length: int,
    data_dir: StrPath | None = None,
    *,
    fields: Sequence[str] = ("text",),
    encode: Callable[..., dict[str, np.ndarray]] = encode_texts,
    validation: int = 0,
    split_seed: int = 0,
    pad_to: Sequence[int] = (),
    predicts: str = "class",
    labels: Sequence[str] | None = None,
    separator: str | None = None,
    **files: Any,
) -> Dataset:
    r"""Load a set of labeled texts, by default encoded as bytes.

    The columns in `fields` hold the texts, and "label" holds the class: a number from 0, or a name.

    Args:
        name: `"ag_news"` (title and description as one text), `"imdb"`, `"sst2"` (tested on GLUE's
            "dev" part), or any name with the files `train` and `test`.
        max_sequence_length: Int, tokens of a padded sequence; longer texts are truncated.
        data_dir: Folder of the files. `None`: the folder in `KERAS_PERMIX_DATA`.
        fields: Tuple of one column name, or of two for pairs of texts. Default: `("text",)`.
        encode: Function from a list of texts and `max_sequence_length` to the arrays of a batch,
            such as the `text_encoder()` of a model, or a `SubwordEncoder`.
        validation: Int, number of training texts held out for validation. Default: 0, no
            validation part, as in the Long Range Arena.
        split_seed: Int ≥ 0, seed of the validation part.
        pad_to: Lengths that batches are padded to, as in `TextSource`.
        predicts: "class"; or, for custom sets, "labels" (several per text) or "values" (numbers).
        labels, separator: As in `listed_images`.
        **files: `train`, `test` and `splits` of a custom set, as in `listed_images`.

    Returns:
        A `Dataset` of parts `(TextSource, None)`.

    Raises:
        ValueError: If the name is unknown, a file is damaged, or a row has no text or label. If
            training has no texts left or fewer than two classes, or testing has other classes.
        FileNotFoundError: If a file is missing.

    Example:
        >>> from pathlib import Path
        >>> from keras_permix.data import load_texts
        >>> size = Path("mine.csv").write_text("text,label\nwell done,good\nno,bad\n")
        >>> data = load_texts("mine", 8, train="mine.csv", test="mine.csv")
        >>> data.labels, data.train[0].read([0, 1])[1].tolist()
        (('bad', 'good'), [1, 0])

    Reference: [Zhang et al., 2015](https://arxiv.org/abs/1509.01626) for AG News,
    [Maas et al., 2011](https://aclanthology.org/P11-1015) for IMDB,
    [Socher et al., 2013](https://aclanthology.org/D13-1170) for SST-2.
    """
    check_integer("validation", validation, 0)
    rows, tests = read_parts(name, FILES, data_dir, **files)
    for row in (*rows, *tests):
        texts = [row.get(field) for field in fields]
        valid = all(isinstance(text, str) and text.strip() and is_whole(text) for text in texts)
        if not valid or predicts == "class" and not class_of(row):
            raise ValueError(
                f"Every row must have a valid text in {list(fields)} and a `label`, not blank. "
                f"For other columns, set `fields`. Received: {shown(row)}"
            )
    if predicts == "class":
        check_unused(labels, separator)
        known = None if files else LABELS.get(name)
        names, read = _class_reader([*rows, *tests], known)
    else:
        names, read = target_reader(rows, predicts, labels, separator)
    rows, held = _held_out(rows, validation, split_seed)
    if not rows:
        raise ValueError(f"`validation` must leave texts for training. Received: {validation=}")
    if predicts == "class":
        classes = [{names[read(row)] for row in part} for part in (rows, tests)]
        check_classes(name, *classes)
        if files:
            warn_of_missing(name, names, classes[0], "train", stacklevel=2)
            warn_of_missing(name, sorted(classes[0]), classes[1], "test", stacklevel=2)

    def source(part):
        texts = [tuple(row[field] for field in fields) for row in part]
        texts = [text for (text,) in texts] if len(fields) == 1 else texts
        return TextSource(texts, list(map(read, part)), max_sequence_length, encode, pad_to), None

    return Dataset(name, source(rows), source(tests), names, source(held) if held else None)


def _class_reader(rows, labels):
    """Return the names of the classes, and a function from a row to the number of its class.

    `labels` are the names of a known set. The classes of other sets are the numbers up to the
    largest label, or the sorted labels.
    """
    given = set(map(class_of, rows))
    decimals = {label: int(label) for label in given if label.isdecimal()}
    if labels is None and len(decimals) == len(given):
        largest = max(decimals.values())
        if largest >= max(len(rows), MANY):
            raise ValueError(f"Numeric labels must count from 0. Received: a label of {largest}")
        labels = tuple(map(str, range(largest + 1)))
    labels = labels or tuple(sorted(given))
    numbers = {label: number for label, number in decimals.items() if number < len(labels)}
    numbers |= {label: number for number, label in enumerate(labels)}  # "1" may be another name
    if unknown := sorted(given - set(numbers)):
        known = ", ".join(labels)
        raise ValueError(f"`label` must be one of {known}, or its number. Received: {unknown[:10]}")
    return labels, lambda row: numbers[class_of(row)]


def _held_out(rows, count, seed):
    """Split off `count` random rows; keep the order of the file in both parts."""
    drawn = set(np.random.default_rng(seed).permutation(len(rows))[:count].tolist())
    kept = [row for number, row in enumerate(rows) if number not in drawn]
    return kept, [rows[number] for number in sorted(drawn)]


def _read_news(path):
    """Read AG News from its archive, where a backslash is a line break; it has no header."""
    rows = read_rows(path, ("class", "title", "description"))
    for row in rows:
        text = f"{row['title']} {row['description']}"
        row["text"] = text.replace("\\n", " ").replace("\\", " ")
        row["label"] = read_row(row, lambda row: NEWS[row["class"]], "`class` must be 1 to 4.")
    return rows


def _read_glue(path):
    """Read SST-2 from GLUE: "sentence", which ends in a blank, and "label"."""
    rows = read_rows(path)
    for row in rows:
        row["text"] = row.get("sentence", "").strip()
    return rows


def _read_reviews(folder):
    """Read IMDB from its archive: a folder per class of files "NUMBER_RATING.txt"."""
    rows = []
    for label, name in zip(SENTIMENT, ("neg", "pos"), strict=True):
        files = (folder / name).glob("[0-9]*_*.txt")
        for file in sorted(files, key=lambda file: int(file.stem.partition("_")[0])):
            rows.append({"text": file.read_text(encoding="utf-8"), "label": label})
    return rows


# name -> file layouts: our files, one per part, and the original archive
FILES = {
    "ag_news": (Files("ag_news_csv/train.csv", "ag_news_csv/test.csv", read=_read_news),),
    "imdb": (
        Files("imdb_train.jsonl.xz", "imdb_test.jsonl.xz"),
        Files("aclImdb/train", "aclImdb/test", read=_read_reviews),
    ),
    "sst2": (
        Files("sst2.jsonl.xz", "sst2.jsonl.xz", ("train", "validation")),
        Files("SST-2/train.tsv", "SST-2/dev.tsv", read=_read_glue),
    ),
}
