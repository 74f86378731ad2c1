"""Texts as sub-words, by a `tokenizer.json` of the `tokenizers` library."""

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from keras_permix._typing import StrPath
from keras_permix.data.text.tokens import encode_texts, pad_tokens

TOKENIZER_FILE = "tokenizer.json"
ADDED = ("special", "normalized", "single_word", "lstrip", "rstrip")  # of an added token
FEW = 40  # tokens, which a message can list


class SubwordEncoder:
    """From texts to padded sequences of sub-words, as BERT reads them.

    How texts are cut and padded is the model's matter: what a `tokenizer.json` says of that is not
    followed.

    Args:
        tokenizer: The text of a `tokenizer.json`.
        max_sequence_length: Tokens of a sequence. A call that asks for another length changes the
            encoder, which threads may share as long as none does.
        joined: Whether the two texts of a pair become one, with "segment_ids" beside "tokens"
            and "mask": 0 for the first text and 1 for the second.

    Raises:
        ImportError: if the package `tokenizers` is absent.
        ValueError: for a text that it cannot read.

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
        """One more than the largest id that a text can get."""
        return 1 + max(self._tokenizer.get_vocab().values())

    def __call__(self, texts: list, max_sequence_length: int) -> dict:
        """A list of texts, or of tuples of two, as `pad_tokens` gives them."""
        if self._tokenizer.truncation["max_length"] != max_sequence_length:
            self._tokenizer.enable_truncation(max_sequence_length)
        if not self.joined:
            return encode_texts(texts, max_sequence_length, self._ids)
        found = self._encode(self._tokenizer.encode_batch, texts)
        types = pad_tokens([one.type_ids for one in found], max_sequence_length)["tokens"]
        return {**pad_tokens([one.ids for one in found], max_sequence_length), "segment_ids": types}

    def cuts(self, text: str | tuple[str, str]) -> bool:
        """Whether a text, or one of a pair, is longer than what a call last gave."""
        several = isinstance(text, tuple) and not self.joined
        return any(
            bool(self._encode(self._tokenizer.encode, *_parts(part)).overflowing)
            for part in (text if several else (text,))
        )

    def _ids(self, text):
        return self._encode(self._tokenizer.encode, text).ids

    def _encode(self, method, *texts):
        try:
            return method(*texts)
        except BaseException as error:  # Panics of the library are no `Exception`.
            _check_is_panic(error)
            known = sorted(self._tokenizer.get_vocab())
            listed = f" {' '.join(known)}" if len(known) <= FEW else f" {len(known)} tokens"
            raise ValueError(
                f"Texts must be of what their `tokenizer` knows, which is{listed}. "
                f"Received: {str(texts[0])[:60]!r} ({error})"
            ) from error


def train_tokenizer(texts: Iterable[str], vocabulary_size: int) -> str:
    """The text of a `tokenizer.json` of byte-pair encoding, made for texts; the same for the same.

    Words are those of BERT: lower case, without accents, each punctuation mark for itself. Id 0 is
    "[PAD]", and 1 "[UNK]", a character that `texts` lack.

    Args:
        texts: Those to train on.
        vocabulary_size: Number of ids; there are fewer where `texts` give no more.

    Returns:
        A str, for the `tokenizer` of a model or a `SubwordEncoder`.

    Raises:
        ImportError: if the package `tokenizers` is absent.
        ValueError: for a `vocabulary_size` that does not hold the characters of `texts`.

    Example:

    >>> from keras_permix.data import SubwordEncoder, train_tokenizer
    >>> encode = SubwordEncoder(train_tokenizer(["low lower lowest"], 20), max_sequence_length=4)
    >>> encode(["Low"], 4)["mask"].tolist()
    [[True, False, False, False]]

    Reference: Sennrich et al., "Neural Machine Translation of Rare Words with Subword Units", 2016.
    """
    library = _library()
    made = library.Tokenizer(library.models.BPE(unk_token="[UNK]"))
    made.normalizer = library.normalizers.BertNormalizer()
    made.pre_tokenizer = library.pre_tokenizers.BertPreTokenizer()
    made.train_from_iterator(
        texts,
        library.trainers.BpeTrainer(
            vocab_size=vocabulary_size, special_tokens=["[PAD]", "[UNK]"], show_progress=False
        ),
    )
    if made.get_vocab_size() > vocabulary_size:
        raise ValueError(
            "`vocabulary_size` must hold each character of `texts`, and two more. "
            f"Received: vocabulary_size={vocabulary_size}, which gave {made.get_vocab_size()}"
        )
    return made.to_str()


def wordpiece_tokenizer(
    words: Sequence[str],
    lowercase: bool = True,
    strip_accents: bool | None = None,
    split_chinese: bool = True,
    **special: str,
) -> str:
    """The text of a `tokenizer.json` of BERT's WordPiece.

    Args:
        words: The vocabulary, in the order of the ids. It holds "[UNK]", "[CLS]" and "[SEP]".
        lowercase: Whether texts are made lower case.
        strip_accents: Whether letters lose their accents. `None`: where texts are made lower case.
        split_chinese: Whether each Chinese character is a word.
        **special: Other names of special words: `unk_token`, `cls_token`, `sep_token`, `pad_token`,
            `mask_token`.

    Raises:
        ImportError: if the package `tokenizers` is absent.
        ValueError: for words without the first three of these.

    Reference: Devlin et al., "BERT", 2018.
    """
    needed = [special.get(f"{name}_token", f"[{name.upper()}]") for name in ("unk", "cls", "sep")]
    if missing := [word for word in needed if word not in words]:
        raise ValueError(
            f"`words` must hold {', '.join(needed[:2])} and {needed[2]}. Received: {len(words)} "
            f"words without {', '.join(missing)}"
        )
    made = _library().BertWordPieceTokenizer(
        {word: number for number, word in enumerate(words)},
        handle_chinese_chars=split_chinese,
        strip_accents=strip_accents,
        lowercase=lowercase,
        **special,
    )
    return made.to_str()


def with_added_tokens(tokenizer: str, tokens: Iterable[dict[str, Any]]) -> str:
    """Add tokens to the text of a `tokenizer.json`, or declare words of its vocabulary to be such.

    Args:
        tokenizer: The text.
        tokens: Dicts with the "content", and perhaps the "id" that it must get, whether it is
            "special", "normalized", a "single_word", and stripped by "lstrip" and "rstrip".

    Raises:
        ImportError: if the package `tokenizers` is absent.
        ValueError: for a token that gets another id.
    """
    made = _parse(tokenizer)
    for token in tokens:
        options = {key: token[key] for key in ADDED if key in token}
        added = _library().AddedToken(token["content"], **options)
        (made.add_special_tokens if token.get("special") else made.add_tokens)([added])
        if made.token_to_id(token["content"]) != token.get(
            "id", made.token_to_id(token["content"])
        ):
            raise ValueError(
                f"The added token {token['content']!r} must have the id {token['id']}. "
                f"Received: a vocabulary where it has {made.token_to_id(token['content'])}"
            )
    return made.to_str()


def tokenizer_text(tokenizer: StrPath | None) -> str | None:
    """The text of a `tokenizer.json`, which is given as such or by its path.

    Raises:
        ValueError: for a file that cannot be read, or is no such file.
    """
    if tokenizer is None:
        return None
    text = str(tokenizer)
    try:
        if not text.lstrip().startswith("{"):
            text = Path(text).read_text(encoding="utf-8")
        if "model" not in json.loads(text):
            raise ValueError('without a "model"')
    except (OSError, ValueError, TypeError, RecursionError) as error:
        raise ValueError(
            "`tokenizer` must be the path of a `tokenizer.json` or its text, that of a JSON object "
            f"as the library tokenizers writes it. Received: tokenizer={str(tokenizer)[:100]!r} "
            f"({error})"
        ) from error
    return text


def _library() -> Any:
    try:
        import tokenizers
    except ImportError as error:
        raise ImportError(
            'Texts are cut into sub-words by tokenizers: pip install "keras_permix[text]". '
            "Received: an environment without it"
        ) from error
    return tokenizers


def _parts(text):
    return text if isinstance(text, tuple) else (text,)


def _check_is_panic(error):
    """Raise what neither is an `Exception` nor a panic of the library, such as an interrupt."""
    if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
        raise error


def _parse(text: str) -> Any:
    library = _library()
    try:
        tokenizer = library.Tokenizer.from_str(text)
    except BaseException as error:  # Panics of the library are no `Exception`.
        _check_is_panic(error)
        raise ValueError(
            "`tokenizer` must be a `tokenizer.json` that the library tokenizers reads. "
            f"Received: {text[:60]!r}… ({error})"
        ) from error
    tokenizer.no_padding()
    return tokenizer
