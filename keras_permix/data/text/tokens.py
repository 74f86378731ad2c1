"""Encode texts as padded batches of token ids."""

import copy
import re
from collections.abc import Callable, Sequence
from typing import Any, Self

import numpy as np

from keras_permix.data.dataset import taken
from keras_permix.data.targets import as_targets

SURROGATE = re.compile("[\ud800-\udfff]")
BYTE_TOKENS = 257  # the 256 bytes, counted from 1, and 0 for padding


def encode_bytes(text: str) -> np.ndarray:
    """Encode a text as UTF-8 bytes. Token ids are byte + 1; 0 is padding.

    Args:
        text: A string.

    Returns:
        int32 array of one token per byte.

    Example:

    >>> from keras_permix.data import encode_bytes
    >>> encode_bytes("ab").tolist()
    [98, 99]

    Reference: Tay et al., "Long Range Arena", 2020, and the released code.
    """
    return np.frombuffer(text.encode("utf-8"), "uint8").astype("int32") + 1


def is_whole(text: str) -> bool:
    """Return whether a text can be encoded as UTF-8; JSON may hold a lone surrogate."""
    return SURROGATE.search(text) is None


def pad_tokens(samples: Sequence[Any], max_sequence_length: int) -> dict[str, np.ndarray]:
    """Pad or truncate sequences of token ids to one length.

    Args:
        samples: A list with the ids of each sample, or a tuple of such (a pair of texts).
        max_sequence_length: Tokens of a padded sequence.

    Returns:
        A dict of "tokens", int32 `(batch, max_sequence_length)`, 0 where there is padding, and
        "mask", bool of the same shape, True at real tokens; `(batch, texts, max_sequence_length)`
        for tuples.

    Example:

    >>> from keras_permix.data import pad_tokens
    >>> pad_tokens([[5, 6], [7]], max_sequence_length=3)["tokens"].tolist()
    [[5, 6, 0], [7, 0, 0]]
    """
    every = [sample if isinstance(sample, tuple) else (sample,) for sample in samples]
    tokens = np.zeros((len(every), len(every[0]), max_sequence_length), "int32")
    mask = np.zeros(tokens.shape, bool)
    for index, parts in enumerate(every):
        for number, part in enumerate(parts):
            part = part[:max_sequence_length]
            tokens[index, number, : len(part)] = part
            mask[index, number, : len(part)] = True
    if isinstance(samples[0], tuple):
        return {"tokens": tokens, "mask": mask}
    return {"tokens": tokens[:, 0], "mask": mask[:, 0]}


def encode_texts(
    texts: Sequence[str] | Sequence[tuple[str, ...]],
    max_sequence_length: int,
    encode: Callable[[str], Sequence[int] | np.ndarray] = encode_bytes,
) -> dict[str, np.ndarray]:
    """Texts as padded sequences of token ids.

    Args:
        texts: A list of str, or of tuples of str (pairs), whose texts become one each.
        max_sequence_length: Tokens of a padded sequence.
        encode: Function from a text to its token ids.

    Returns:
        A dict of "tokens" and "mask", as `pad_tokens` gives it.

    Example:

    >>> from keras_permix.data import encode_texts
    >>> encode_texts([("a", "b")], max_sequence_length=2)["tokens"].tolist()
    [[[98, 0], [99, 0]]]
    """
    samples = [
        tuple(map(encode, text)) if isinstance(text, tuple) else encode(text) for text in texts
    ]
    return pad_tokens(samples, max_sequence_length)


class TextSource:
    """Encode labeled texts batch by batch, for `Pipeline`.

    `source[start:stop]` and `source[indices]` return a source with some of the texts.

    Args:
        texts: List of str, or of tuples of str for pairs.
        labels: Int array `(texts,)`, or float array `(texts, targets)`.
        max_sequence_length: Int, tokens of a padded sequence.
        encode: Function from a list of texts and `max_sequence_length` to the arrays of a batch.
        pad_to: Ascending lengths below `max_sequence_length`. Each batch is padded to the shortest
            length that fits, and `Pipeline` groups texts of similar length when it shuffles. Not
            supported for pairs. Default: `()`.

    Raises:
        ValueError: If `pad_to` is not ascending and below `max_sequence_length`, or is given for
            pairs.

    Example:

    >>> from keras_permix.data import TextSource
    >>> inputs, labels = TextSource(["no", "yes"], [0, 1], max_sequence_length=4).read([1])
    >>> inputs["tokens"].tolist(), labels.tolist()
    ([[122, 102, 116, 0]], [1])
    """

    def __init__(
        self,
        texts: Sequence[str] | Sequence[tuple[str, ...]],
        labels: Any,
        max_sequence_length: int,
        encode: Callable[..., dict[str, np.ndarray]] = encode_texts,
        pad_to: Sequence[int] = (),
    ) -> None:
        self.texts, self.labels = texts, as_targets(labels)
        self.max_sequence_length, self.encode = max_sequence_length, encode
        self.pad_to = check_lengths(pad_to, max_sequence_length)
        if pad_to and any(isinstance(text, tuple) for text in texts[:1]):
            raise ValueError(f"`pad_to` must be empty for pairs. Received: pad_to={pad_to}")

    def __len__(self) -> int:
        return len(self.texts)

    def __getitem__(self, part: slice | np.ndarray) -> Self:
        some = copy.copy(self)
        some.texts, some.labels = taken(self.texts, part), self.labels[part]
        return some

    def read(
        self, indices: Sequence[int] | np.ndarray, epoch: int = 0, index: int = 0
    ) -> tuple[dict[str, np.ndarray], np.ndarray]:
        """Return a batch: `(arrays from encode, labels)`."""
        texts = [self.texts[int(i)] for i in indices]
        labels = self.labels[np.asarray(indices, int)]
        inputs = self.encode(texts, self.max_sequence_length)
        return trim(inputs, self.pad_to) if len(self.pad_to) > 1 else inputs, labels

    def of_one_shape(self) -> Self:
        """Return a source that pads all batches to `max_sequence_length`."""
        return of_one_shape(self)

    def shuffled(self, rng: np.random.Generator, batch_size: int) -> np.ndarray:
        """Return the order of an epoch, an int array `(texts,)`."""
        if len(self.pad_to) == 1:
            return rng.permutation(len(self))
        return similar_lengths(rng, [len(text) for text in self.texts], batch_size)


GROUPS = 16  # of lengths; texts of one group are in one batch, or in two


def check_lengths(pad_to: Sequence[int], max_sequence_length: int) -> tuple[int, ...]:
    """Return the possible lengths of a batch; `max_sequence_length` is the last.

    Raises:
        ValueError: If `pad_to` is not ascending from at least 1 to below `max_sequence_length`.
    """
    if not isinstance(pad_to, list | tuple) or not all(isinstance(n, int) for n in pad_to):
        raise ValueError(f"`pad_to` must be a list of integers. Received: pad_to={pad_to!r}")
    lengths = (*pad_to, max_sequence_length)
    if min(lengths) < 1 or list(lengths) != sorted(set(lengths)):
        raise ValueError(
            "`pad_to` must be lengths that rise, from 1 or more to less than "
            "`max_sequence_length`. "
            f"Received: pad_to={tuple(pad_to)}, max_sequence_length={max_sequence_length}"
        )
    return lengths


def similar_lengths(
    rng: np.random.Generator, lengths: Sequence[int] | np.ndarray, batch_size: int
) -> np.ndarray:
    """Shuffle texts so that each batch holds texts of similar length.

    Args:
        rng: A `numpy.random.Generator`.
        lengths: Length of each text, or any measure that grows with the number of tokens.
        batch_size: Int, texts per batch. Batches are in random order; the last may be smaller.

    Returns:
        int array `(texts,)`, each index once.
    """
    ranks = np.argsort(np.argsort(lengths, kind="stable"))
    order = rng.permutation(len(ranks))
    order = order[np.argsort(ranks[order] * GROUPS // len(ranks), kind="stable")]
    order = np.roll(order, rng.integers(len(order)))  # so that no length is always left over
    full = len(order) - len(order) % batch_size
    batches = rng.permutation(order[:full].reshape(-1, batch_size))
    return np.concatenate([batches.reshape(-1), order[full:]])


def of_one_shape(source: Any) -> Any:
    """Return a copy of a source that pads all batches to `max_sequence_length`."""
    one = copy.copy(source)
    one.pad_to = (source.max_sequence_length,)
    return one


def trim(inputs: dict[str, np.ndarray], lengths: Sequence[int]) -> dict[str, np.ndarray]:
    """Trim padded sequences to the shortest length that keeps all real tokens.

    Args:
        inputs: Dict of arrays `(batch, tokens)`, among them "mask".
        lengths: As `check_lengths` returns them.
    """
    longest = np.flatnonzero(inputs["mask"].any(axis=0)).max(initial=0) + 1
    width = next(length for length in lengths if length >= longest)
    return {name: array[:, :width] for name, array in inputs.items()}
