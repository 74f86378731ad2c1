"""Encode texts as padded batches of token ids."""

import re
from collections.abc import Callable, Sequence
from typing import Any

import keras
import numpy as np

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
    """Return whether a text can be encoded as UTF-8; JSON may contain a lone surrogate."""
    return SURROGATE.search(text) is None


def pad_tokens(samples: Sequence[Any], max_sequence_length: int) -> dict[str, np.ndarray]:
    """Pad or truncate sequences of token ids to one length.

    Args:
        samples: The ids of each sample: a list, or a tuple of lists for a pair of texts.
        max_sequence_length: Int, tokens of a padded sequence.

    Returns:
        A dict of "tokens", int32 `(batch, max_sequence_length)`, 0 where there is padding, and
        "mask", bool of the same shape, True at real tokens; `(batch, texts, max_sequence_length)`
        for tuples.

    Raises:
        ValueError: If there are no samples.

    Example:
        >>> from keras_permix.data import pad_tokens
        >>> pad_tokens([[5, 6], [7]], max_sequence_length=3)["tokens"].tolist()
        [[5, 6, 0], [7, 0, 0]]
    """
    if not len(samples):
        raise ValueError(f"`samples` must not be empty. Received: {samples!r}")
    pairs = isinstance(samples[0], tuple)
    parts = [part for sample in samples for part in sample] if pairs else samples
    tokens = keras.utils.pad_sequences(
        parts, max_sequence_length, padding="post", truncating="post"
    )
    mask = np.arange(max_sequence_length) < np.array([[len(part)] for part in parts])
    if pairs:
        shape = (len(samples), -1, max_sequence_length)
        return {"tokens": tokens.reshape(shape), "mask": mask.reshape(shape)}
    return {"tokens": tokens, "mask": mask}


def encode_texts(
    texts: Sequence[str] | Sequence[tuple[str, ...]],
    max_sequence_length: int,
    encode: Callable[[str], Sequence[int] | np.ndarray] = encode_bytes,
) -> dict[str, np.ndarray]:
    """Encode texts as padded sequences of token ids.

    Args:
        texts: A list of str, or of tuples of str (pairs), each encoded separately.
        max_sequence_length: Int, tokens of a padded sequence.
        encode: Function from a text to its token ids. Default: `encode_bytes`.

    Returns:
        A dict of "tokens" and "mask", as `pad_tokens` returns it.

    Example:
        >>> from keras_permix.data import encode_texts
        >>> encode_texts([("a", "b")], max_sequence_length=2)["tokens"].tolist()
        [[[98, 0], [99, 0]]]
    """
    samples = [
        tuple(map(encode, text)) if isinstance(text, tuple) else encode(text) for text in texts
    ]
    return pad_tokens(samples, max_sequence_length)
