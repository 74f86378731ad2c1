"""The block of BERT, which normalises behind each residual, around any mixer."""

import keras

from keras_permix.layers.parts.checks import check_choice, check_positive, check_rate, check_tokens
from keras_permix.layers.parts.dense import Dense
from keras_permix.layers.parts.dropout import make_dropout


@keras.saving.register_keras_serializable("keras_permix")
class PostNormBlock(keras.layers.Layer):
    """Mix tokens, then mix channels, and normalise behind each residual.

    `a = norm(x + mixer(x))`, `y = norm(a + dense(gelu(dense(a))))`, and the result is `y`, or
    `y + x` with `extra_skip="block"`. With `extra_skip="attention"`, the other reading of the
    paper, `a = norm(x + mixer(x) + x)`.

    Input and output: `(batch, tokens, channels)`. A mask `(batch, tokens)` goes to the mixer.

    Args:
        mixer: The layer that mixes tokens.
        mlp_dim: Hidden width of the channel mixer.
        extra_skip: `None`, "block" or "attention".
        dropout: Rate of the dropouts before the two residuals, in `[0, 1)`.
        epsilon: Epsilon of the layer normalisations; that of BERT.

    Raises:
        ValueError: for an argument out of range.

    Example:

    >>> import numpy as np
    >>> from keras_permix.layers import CSP, PostNormBlock
    >>> tuple(PostNormBlock(CSP(), mlp_dim=64)(np.ones((2, 64, 32), "float32")).shape)
    (2, 64, 32)

    Source: Devlin et al., "BERT", 2018; the extra skip: Yorsh et al., "SimpleTRON", 2022.
    """

    def __init__(self, mixer, mlp_dim, extra_skip=None, dropout=0.0, epsilon=1e-12, **kwargs):
        super().__init__(**kwargs)
        self.supports_masking = True
        self.mixer = keras.layers.deserialize(mixer) if isinstance(mixer, dict) else mixer
        self.mlp_dim = check_positive("mlp_dim", mlp_dim)
        self.extra_skip = check_choice("extra_skip", extra_skip, (None, "block", "attention"))
        self.dropout = check_rate("dropout", dropout)
        self.epsilon = epsilon

    def build(self, input_shape):
        width, policy = check_tokens(type(self).__name__, input_shape)[-1], self.dtype_policy
        norm = dict(epsilon=self.epsilon, dtype=policy)
        self.mixer_norm = keras.layers.LayerNormalization(**norm, name="mixer_norm")
        self.mlp_norm = keras.layers.LayerNormalization(**norm, name="mlp_norm")
        self.mlp_in = Dense(self.mlp_dim, "gelu", dtype=policy, name="mlp_in")
        self.mlp_out = Dense(width, dtype=policy, name="mlp_out")
        self.mixer_dropout = make_dropout(self.dropout, dtype=policy)
        self.mlp_dropout = make_dropout(self.dropout, dtype=policy)
        for layer in (self.mixer, self.mixer_norm, self.mlp_in, self.mlp_norm):
            layer.build(input_shape)
        self.mlp_out.build((*input_shape[:-1], self.mlp_dim))

    def call(self, inputs, mask=None):
        tokens = inputs + self.mixer_dropout(self.mixer(inputs, mask=mask))
        if self.extra_skip == "attention":
            tokens = tokens + inputs
        tokens = self.mixer_norm(tokens)
        mixed = self.mlp_dropout(self.mlp_out(self.mlp_in(tokens)))
        tokens = self.mlp_norm(tokens + mixed)
        return tokens + inputs if self.extra_skip == "block" else tokens

    def compute_output_shape(self, input_shape):
        return tuple(input_shape)

    def get_config(self):
        mixer = keras.layers.serialize(self.mixer)
        mixer.pop("build_config", None)  # the block builds it
        return {
            **super().get_config(),
            "mixer": mixer,
            "mlp_dim": self.mlp_dim,
            "extra_skip": self.extra_skip,
            "dropout": self.dropout,
            "epsilon": self.epsilon,
        }
