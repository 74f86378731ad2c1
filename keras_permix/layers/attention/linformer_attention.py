"""Attend to a fixed number of learned mixtures of the tokens (Linformer)."""

from typing import Any

import keras
from keras import ops

from keras_permix.layers.attention.self_attention import SelfAttention
from keras_permix.layers.attention.softmax_attention import can_fuse, softmax_weights
from keras_permix.layers.parts.masks import visible_keys


@keras.saving.register_keras_serializable("keras_permix")
class LinformerAttention(SelfAttention):
    """Attend to a fixed number of learned mixtures of the tokens, in linear time.

    Keys are projected to `key_mixer^T @ key` and values to `value_mixer^T @ value` along the
    tokens, both `(mixtures, head_dim)`. Queries attend to these with a softmax. All heads share
    both projections `(max_sequence_length, mixtures)`; shorter inputs use their first rows. The
    other weights match those of `SoftmaxAttention`.

    Inputs, outputs and `mask` are those of `SoftmaxAttention`, but padding counts as zeros in the
    mixtures.

    Args:
        num_heads, head_dim, use_qkv_bias, use_output_projection, dropout: See `SoftmaxAttention`.
            Dropout acts only after the output projection.
        mixtures: Number of mixtures that a query attends to.
        max_sequence_length: Largest number of tokens. `None`: the number at build time.

    Raises:
        ValueError: for an argument out of range, an input width that the heads do not divide, more
            tokens than `max_sequence_length`, or an unknown number of tokens if that is `None`.

    Example:
        >>> import numpy as np
        >>> from keras_permix.layers import LinformerAttention
        >>> layer = LinformerAttention(num_heads=4, mixtures=16)
        >>> tuple(layer(np.ones((2, 64, 32), "float32")).shape)
        (2, 64, 32)

    Reference: Wang et al., "Linformer", 2020, arXiv:2006.04768, equation (7), with headwise
    sharing.
    """

    def __init__(
        self,
        num_heads: int = 8,
        mixtures: int = 256,
        max_sequence_length: int | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(num_heads, **kwargs)
        self._store(locals())

    def build(self, input_shape: tuple) -> None:
        super().build(input_shape)
        tokens = self._tokens_shape(input_shape)[1]
        if self.max_sequence_length is None and tokens is None:
            rule = "`max_sequence_length` must be set if the number of tokens is unknown."
            raise ValueError(f"{rule} Received: max_sequence_length=None")
        shape = (self.max_sequence_length or tokens, self.mixtures)
        normal = keras.initializers.RandomNormal(stddev=self.mixtures**-0.5)
        self.key_mixer = self.add_weight(shape, normal, name="key_mixer")
        self.value_mixer = self.add_weight(shape, normal.clone(), name="value_mixer")

    def attend(self, query: Any, key: Any, value: Any, mask: Any = None) -> Any:
        if (query.shape[1] or 0) > self.key_mixer.shape[0]:
            rule = f"The number of tokens must be at most {self.key_mixer.shape[0]}."
            raise ValueError(f"{rule} Received: {query.shape[1]} tokens")
        if mask is not None:
            real = visible_keys(ops.cast(mask, "bool"))[:, :, None, None]
            key, value = (ops.where(real, x, ops.zeros_like(x)) for x in (key, value))
        tokens = ops.shape(query)[1]
        key_mixer = ops.cast(self.key_mixer[:tokens], key.dtype)
        value_mixer = ops.cast(self.value_mixer[:tokens], value.dtype)
        key = ops.einsum("bnhd,nm->bmhd", key, key_mixer)
        value = ops.einsum("bnhd,nm->bmhd", value, value_mixer)
        if can_fuse(query):
            return ops.dot_product_attention(query, key, value)
        return ops.einsum("bhqk,bkhd->bqhd", softmax_weights(query, key), value)
