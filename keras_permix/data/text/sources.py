"""Read labeled texts and sequences of token ids batch by batch."""

import copy
from collections.abc import Callable, Sequence
from typing import Any, Self

import numpy as np

from keras_permix.data.dataset import Source
from keras_permix.data.text.tokens import encode_texts

GROUPS = 16  # of texts of similar length


class SequenceSource(Source):
    """Pad labeled sequences to the shortest of several lengths; base class of two sources.

    `lengths` are those of the sequences, in tokens or characters.
    """

    def __init__(
        self, labels: Any, lengths: Any, max_sequence_length: int, pad_to: Sequence[int]
    ) -> None:
        super().__init__(len(lengths), labels)
        self._lengths = np.asarray(lengths, "int64")
        self.max_sequence_length = max_sequence_length
        self.pad_to = (*sorted(pad_to), max_sequence_length)

    def of_one_shape(self) -> Self:
        """Return a source that pads all batches to `max_sequence_length`."""
        one = copy.copy(self)
        one.pad_to = (self.max_sequence_length,)
        return one

    def shuffled(self, rng: np.random.Generator, batch_size: int) -> np.ndarray:
        """Return the order of an epoch: int array, in which a batch has similar lengths."""
        if len(self.pad_to) == 1:
            return rng.permutation(len(self))
        ranks = np.argsort(np.argsort(self._lengths[self.chosen], kind="stable"))
        order = rng.permutation(len(ranks))
        order = order[np.argsort(ranks[order] * GROUPS // len(ranks), kind="stable")]
        order = np.roll(order, rng.integers(len(order)))  # vary the lengths in the last batch
        full = len(order) - len(order) % batch_size
        batches = rng.permutation(order[:full].reshape(-1, batch_size))
        return np.concatenate([batches.reshape(-1), order[full:]])

    def _trimmed(self, inputs):
        """Trim padded arrays `(batch, tokens)` to the shortest length that keeps all tokens."""
        if len(self.pad_to) == 1:
            return inputs
        longest = np.flatnonzero(inputs["mask"].any(axis=0)).max(initial=0) + 1
        width = next(length for length in self.pad_to if length >= longest)
        return {name: array[:, :width] for name, array in inputs.items()}


class TextSource(SequenceSource):
    """Encode labeled texts batch by batch, for `Pipeline`.

    `read` returns the arrays from `encode`, and the labels.

    Args:
        texts: List of str, or of tuples of str for pairs.
        labels: Int array `(texts,)`, or float array `(texts, targets)`.
        max_sequence_length: Int, tokens of a padded sequence.
        encode: Function from texts and `max_sequence_length` to arrays. Default: `encode_texts`.
        pad_to: Lengths below `max_sequence_length`. Each batch is padded to the shortest length
            that fits, and `Pipeline` groups texts of similar length when it shuffles. Not supported
            for pairs. Default: `()`.

    Raises:
        ValueError: If the numbers of texts and labels differ, or `pad_to` is given for pairs.

    Example:
        >>> from keras_permix.data import TextSource
        >>> inputs, labels = TextSource(["no", "yes"], [0, 1], max_sequence_length=4).read([1])
        >>> inputs["tokens"].tolist(), labels.tolist()
        ([[122, 102, 116, 0]], [1])
    """

    def __init__(
        self,
        texts: Sequence[Any],
        labels: Any,
        max_sequence_length: int,
        encode: Callable[..., dict[str, np.ndarray]] = encode_texts,
        pad_to: Sequence[int] = (),
    ) -> None:
        super().__init__(labels, list(map(len, texts)), max_sequence_length, pad_to)
        self._texts: Any = texts
        self.encode = encode
        if pad_to and any(isinstance(text, tuple) for text in texts[:1]):
            raise ValueError(f"`pad_to` must be empty for pairs. Received: pad_to={pad_to}")

    @property
    def texts(self) -> list[Any]:
        """Return the texts of this source."""
        return [self._texts[i] for i in self.chosen]

    def _inputs(self, chosen):
        return self._trimmed(
            self.encode([self._texts[i] for i in chosen], self.max_sequence_length)
        )


class TokenSource(SequenceSource):
    """Pad labeled sequences of token ids batch by batch, for `Pipeline`.

    `read` returns "tokens" and "mask" as from `pad_tokens`, and int32 labels.

    Args:
        tokens: Integer array `(tokens,)`, all sequences concatenated.
        lengths: Int array `(sequences,)`, tokens per sequence.
        labels: Int array `(sequences,)`.
        max_sequence_length, pad_to: As in `TextSource`. Longer sequences are truncated.

    Raises:
        ValueError: If `lengths` do not match `tokens` or `labels`.

    Example:
        >>> from keras_permix.data import TokenSource
        >>> source = TokenSource([5, 6, 7], [2, 1], [0, 1], max_sequence_length=3)
        >>> inputs, labels = source.read([1, 0])
        >>> inputs["tokens"].tolist(), labels.tolist()
        ([[7, 0, 0], [5, 6, 0]], [1, 0])
    """

    def __init__(
        self,
        tokens: Any,
        lengths: Any,
        labels: Any,
        max_sequence_length: int,
        pad_to: Sequence[int] = (),
    ) -> None:
        super().__init__(labels, lengths, max_sequence_length, pad_to)
        self._tokens = np.asarray(tokens)
        if self._lengths.sum() != len(self._tokens):
            found = f"lengths={self._lengths}, {len(self._tokens)} tokens"
            raise ValueError(f"`lengths` must sum to the number of `tokens`. Received: {found}")
        self._starts = np.cumsum(self._lengths) - self._lengths

    def _inputs(self, chosen):
        columns = np.arange(self.max_sequence_length)
        mask = columns < self._lengths[chosen, None]
        tokens = np.zeros(mask.shape, "int32")
        tokens[mask] = self._tokens[(self._starts[chosen, None] + columns)[mask]]
        return self._trimmed({"tokens": tokens, "mask": mask})
