"""Hold labeled sequences of token ids in one array."""

import copy
from collections.abc import Sequence
from typing import Any, Self

import numpy as np

from keras_permix.data.text.tokens import (
    check_lengths,
    of_one_shape,
    similar_lengths,
    trim,
)


class TokenSource:
    """Pad labeled sequences of token ids batch by batch, for `Pipeline`.

    `source[start:stop]` and `source[indices]` return a source with some of the sequences.

    Args:
        tokens: Integer array `(tokens,)`, all sequences concatenated.
        lengths: Int array `(sequences,)`, tokens per sequence.
        labels: Int array `(sequences,)`.
        max_sequence_length: Int, tokens of a padded sequence; longer sequences are truncated.
        pad_to: Ascending lengths below `max_sequence_length`, as in `TextSource`. Default: `()`.

    Raises:
        ValueError: If the sizes do not match, or `pad_to` is not ascending and below
            `max_sequence_length`.

    Example:

    >>> from keras_permix.data import TokenSource
    >>> inputs, labels = TokenSource([5, 6, 7], [2, 1], [0, 1], max_sequence_length=3).read([1, 0])
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
        self.tokens, self.lengths = np.asarray(tokens), np.asarray(lengths, "int64")
        self.labels, self.max_sequence_length = np.asarray(labels, "int32"), max_sequence_length
        if self.lengths.sum() != len(self.tokens) or len(self.lengths) != len(self.labels):
            raise ValueError(
                "`lengths` must add up to the number of `tokens`, and be as many as `labels`. "
                f"Received: {self.lengths.sum()} in {len(self.lengths)} rows, {len(self.tokens)} "
                f"tokens, {len(self.labels)} labels"
            )
        self._starts = np.cumsum(self.lengths) - self.lengths
        self.pad_to = check_lengths(pad_to, max_sequence_length)

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, part: slice | np.ndarray) -> Self:
        some = copy.copy(self)
        some.lengths, some.labels = self.lengths[part], self.labels[part]
        some._starts = self._starts[part]
        return some

    def row(self, index: int) -> np.ndarray:
        """Return the token ids of one sequence, without padding."""
        start = self._starts[index]
        return self.tokens[start : start + self.lengths[index]]

    def read(
        self, indices: Sequence[int] | np.ndarray, epoch: int = 0, index: int = 0
    ) -> tuple[dict[str, np.ndarray], np.ndarray]:
        """Return a batch: `("tokens" and "mask" as from pad_tokens, int32 labels)`."""
        chosen, columns = np.asarray(indices, int), np.arange(self.max_sequence_length)
        mask = columns < self.lengths[chosen, None]
        tokens = np.zeros(mask.shape, "int32")
        tokens[mask] = self.tokens[(self._starts[chosen, None] + columns)[mask]]
        return trim({"tokens": tokens, "mask": mask}, self.pad_to), self.labels[chosen]

    def of_one_shape(self) -> Self:
        """Return a source that pads all batches to `max_sequence_length`."""
        return of_one_shape(self)

    def shuffled(self, rng: np.random.Generator, batch_size: int) -> np.ndarray:
        """Return the order of an epoch, an int array `(sequences,)`."""
        if len(self.pad_to) == 1:
            return rng.permutation(len(self))
        return similar_lengths(rng, self.lengths, batch_size)
