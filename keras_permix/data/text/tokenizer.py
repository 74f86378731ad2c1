"""Encode texts as subwords with a `tokenizer.json` of the `tokenizers` library."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from keras_permix._typing import StrPath
from keras_permix.data.text.tokens import encode_texts, pad_tokens
from keras_permix.utils.checks import import_extra

TOKENIZER_FILE = "tokenizer.json"


class SubwordEncoder:
    """Encode texts as padded sequences of subwords, as BERT reads them.

    Truncation and padding of the `tokenizer.json` are ignored: the model defines both.

    Args:
        tokenizer: Str, content of a `tokenizer.json`.
        max_sequence_length: Int, tokens of a sequence. A call with another length changes the
            encoder; threads may share it only if they use one length.
        joined: Bool, whether the two texts of a pair become one sequence, with "segment_ids": 0 for
            the first text and 1 for the second. Default: `False`.

    Raises:
        ImportError: If the package `tokenizers` is not installed.
        ValueError: If the library cannot read `tokenizer`, or encode a text.

    Example:
        >>> from keras_permix.data import SubwordEncoder, train_tokenizer
        >>> encode = SubwordEncoder(train_tokenizer(["low lower"], 20), max_sequence_length=4,
        ...     joined=True)
        >>> encode([("low", "lower")], 4)["segment_ids"].tolist()
        [[0, 1, 0, 0]]
    """

    def __init__(self, tokenizer: str, max_sequence_length: int, joined: bool = False) -> None:
        self.joined = joined
        self._tokenizer = _parse(tokenizer)
        self._tokenizer.enable_truncation(max_sequence_length)

    @property
    def vocabulary_size(self) -> int:
        """Return the largest id of a token, plus one."""
        return 1 + max(self._tokenizer.get_vocab().values())

    def __call__(self, texts: list, max_sequence_length: int) -> dict:
        """Encode a list of texts, or of tuples of two texts, as `pad_tokens` returns them."""
        if self._tokenizer.truncation["max_length"] != max_sequence_length:
            self._tokenizer.enable_truncation(max_sequence_length)
        if not self.joined:
            return encode_texts(texts, max_sequence_length, self._ids)
        found = self._encode(self._tokenizer.encode_batch, texts)
        types = pad_tokens([one.type_ids for one in found], max_sequence_length)["tokens"]
        return {**pad_tokens([one.ids for one in found], max_sequence_length), "segment_ids": types}

    def cuts(self, text: str | tuple[str, str]) -> bool:
        """Return whether the length of the last call truncates a text, or one text of a pair."""
        parts = text if isinstance(text, tuple) and not self.joined else (text,)
        calls = [part if isinstance(part, tuple) else (part,) for part in parts]
        return any(self._encode(self._tokenizer.encode, *call).overflowing for call in calls)

    def _ids(self, text):
        return self._encode(self._tokenizer.encode, text).ids

    def _encode(self, method, *texts):
        try:
            return method(*texts)
        except Exception as error:  # of an unknown type
            rule = "Texts must consist of tokens of the `tokenizer`"
            raise ValueError(f"{rule}. Received: {str(texts[0])[:60]!r} ({error})") from error


def train_tokenizer(texts: Iterable[str], vocabulary_size: int) -> str:
    """Train byte-pair encoding on texts; the same texts give the same result.

    Texts are split into words as in BERT: in lower case, without accents, with each punctuation
    mark as a word. Id 0 is "[PAD]", and id 1 is "[UNK]" for unknown characters.

    Args:
        texts: Iterable of str.
        vocabulary_size: Int, largest number of ids.

    Returns:
        A str, the content of a `tokenizer.json` for a model or a `SubwordEncoder`.

    Raises:
        ImportError: If the package `tokenizers` is not installed.
        ValueError: If `texts` is a str, or `vocabulary_size` is too small for its characters.

    Example:
        >>> from keras_permix.data import SubwordEncoder, train_tokenizer
        >>> encode = SubwordEncoder(train_tokenizer(["low lower"], 20), max_sequence_length=4)
        >>> encode(["Low"], 4)["mask"].tolist()
        [[True, False, False, False]]

    Reference: Sennrich et al., "Neural Machine Translation of Rare Words with Subword Units", 2016.
    """
    if isinstance(texts, str):
        raise ValueError(f"`texts` must contain several texts. Received: {texts[:60]!r}")
    library = _library()
    made = library.Tokenizer(library.models.BPE(unk_token="[UNK]"))
    made.normalizer = library.normalizers.BertNormalizer()
    made.pre_tokenizer = library.pre_tokenizers.BertPreTokenizer()
    trainer = library.trainers.BpeTrainer(
        vocab_size=vocabulary_size, special_tokens=["[PAD]", "[UNK]"], show_progress=False
    )
    made.train_from_iterator(texts, trainer)
    if (least := made.get_vocab_size()) > vocabulary_size:
        raise ValueError(f"`vocabulary_size` must be at least {least}. Received: {vocabulary_size}")
    return made.to_str()


def wordpiece_tokenizer(
    words: Sequence[str],
    lowercase: bool = True,
    strip_accents: bool | None = None,
    split_chinese: bool = True,
) -> str:
    """Return the content of a `tokenizer.json` for BERT's WordPiece.

    `words` are in the order of their ids. Accents are stripped by default if texts are converted to
    lower case.
    """
    made = _library().BertWordPieceTokenizer(
        {word: number for number, word in enumerate(words)},
        handle_chinese_chars=split_chinese,
        strip_accents=strip_accents,
        lowercase=lowercase,
    )
    return made.to_str()


def tokenizer_text(tokenizer: StrPath | None) -> str | None:
    """Return the content of a `tokenizer.json`, given as content or path; `None` for `None`."""
    if tokenizer is None:
        return None
    text = str(tokenizer)
    if text.lstrip().startswith("{"):
        return text
    try:
        return Path(text).read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        rule = "`tokenizer` must be a `tokenizer.json`, as path or content"
        raise ValueError(f"{rule}. Received: {text[:99]!r}") from error


def _library() -> Any:
    return import_extra("tokenizers", "text", "A tokenizer")


def _parse(text: str) -> Any:
    library = _library()
    try:
        tokenizer = library.Tokenizer.from_str(text)
    except Exception as error:  # of an unknown type
        rule = "`tokenizer` must be a readable `tokenizer.json`"
        raise ValueError(f"{rule}. Received: {text[:60]!r} ({error})") from error
    tokenizer.no_padding()
    return tokenizer
