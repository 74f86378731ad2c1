"""Embed token ids with positions, and split pairs of texts."""

from typing import Any

import keras
import numpy as np
from keras import ops

from keras_permix.layers.embedding.positions import prepend
from keras_permix.layers.parts.masks import with_first
from keras_permix.layers.parts.wrappers import Composite, Embedding, policy_at


@keras.saving.register_keras_serializable("keras_permix")
class SplitPairs(keras.layers.Layer):
    """Reshape pairs `(batch, 2, tokens)` to `(2 * batch, tokens)`, one text after the other."""

    def call(self, pairs):
        batch, two, tokens = ops.shape(pairs)
        return ops.reshape(pairs, (batch * two, tokens))

    def compute_output_spec(self, pairs):
        batch, two, tokens = pairs.shape
        return keras.KerasTensor((batch and batch * two, tokens), pairs.dtype)


@keras.saving.register_keras_serializable("keras_permix")
class TokenEmbedding(Composite):
    """Embed token ids, optionally prepend a class token, and add positions.

    Input: integers `(batch, tokens)` below `vocabulary_size`. Output: `(batch, tokens,
    hidden_dim)`, or one token more. Sinusoids reserve position 0 for the class token, even without
    one. A mask `(batch, tokens)` of the previous layer is extended by True for the class token.

    Args:
        vocabulary_size: Number of token ids.
        hidden_dim: Channels per token.
        max_sequence_length: Largest number of token ids.
        positions: "sinusoid", constant sines and cosines; "learned", initialized with a standard
            deviation of 0.02; or `None`.
        use_class_token: Whether to prepend a learned class token, initialized to zero.
        stddev: Standard deviation of the initial token embeddings.

    Raises:
        ValueError: for an argument out of range, or more than `max_sequence_length` token ids.

    Example:
        >>> import numpy as np
        >>> from keras_permix.layers import TokenEmbedding
        >>> layer = TokenEmbedding(257, 32, max_sequence_length=100, use_class_token=True)
        >>> tuple(layer(np.ones((2, 64), "int32")).shape)
        (2, 65, 32)

    Reference: Vaswani et al., "Attention Is All You Need", 2017, arXiv:1706.03762, section 3.5. Tay
    et al., "Long Range Arena", 2020, arXiv:2011.04006 and the released code.
    """

    def __init__(
        self,
        vocabulary_size: int,
        hidden_dim: int,
        max_sequence_length: int,
        positions: str | None = "sinusoid",
        use_class_token: bool = False,
        stddev: float = 1.0,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.input_spec = keras.InputSpec(ndim=2)
        self.autocast = False  # would round ids that are floats
        self._store(locals(), positions=(None, "sinusoid", "learned"))

    def build(self, input_shape: tuple) -> None:
        normal = keras.initializers.RandomNormal
        self.embedding = Embedding(
            self.vocabulary_size,
            self.hidden_dim,
            normal(stddev=self.stddev),
            dtype=policy_at(self.dtype_policy, f"{self.path}/tokens"),
            name="tokens",
        )
        self.embedding.supports_masking = True  # This layer propagates the mask.
        self.embedding.build(input_shape)
        if self.use_class_token:
            self.class_token = self.add_weight((1, 1, self.hidden_dim), "zeros", name="class_token")
        rows = self.max_sequence_length + self.use_class_token
        if self.positions == "learned":
            shape = (rows, self.hidden_dim)
            self.table = self.add_weight(shape, normal(stddev=0.02), name="positions")
        elif self.positions == "sinusoid":
            table = sinusoid(self.max_sequence_length + 1, self.hidden_dim)
            self.table = table[-rows:].astype("float32")

    def call(self, tokens: Any) -> Any:
        if (tokens.shape[1] or 0) > self.max_sequence_length:
            rule = f"`tokens` must have at most max_sequence_length={self.max_sequence_length} ids."
            raise ValueError(f"{rule} Received: tokens.shape={tuple(tokens.shape)}")
        x = self.embedding(tokens)
        if self.use_class_token:
            x = prepend(self.class_token, x)
        if self.positions is None:
            return x
        table = ops.convert_to_tensor(self.table)[: ops.shape(x)[1]]
        return x + ops.cast(table, x.dtype)

    def compute_mask(self, inputs: Any, previous_mask: Any = None) -> Any:
        if previous_mask is None or not self.use_class_token:
            return previous_mask
        return with_first(previous_mask)

    def compute_output_shape(self, input_shape: tuple) -> tuple:
        batch, tokens = input_shape
        tokens = None if tokens is None else tokens + self.use_class_token
        return (batch, tokens, self.hidden_dim)


def sinusoid(rows: int, hidden_dim: int) -> np.ndarray:
    """Return `(rows, hidden_dim)` sines of positions in even channels and cosines in odd ones."""
    channels = np.arange(hidden_dim)
    angles = np.arange(rows)[:, None] * 10000.0 ** (-(channels - channels % 2) / hidden_dim)
    return np.where(channels % 2, np.cos(angles), np.sin(angles))
