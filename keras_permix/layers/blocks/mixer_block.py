"""A mixer of tokens and a mixer of channels, each with a residual and a normalization."""

import keras

from keras_permix.layers.parts.dense import Dense
from keras_permix.layers.parts.dropout import make_dropout


@keras.saving.register_keras_serializable("keras_permix")
class MixerBlock(keras.layers.Layer):
    """Mix tokens, then mix channels, each with a residual and a normalisation.

    `x = x + mixer(norm(x))`, `x = x + dense(dropout(gelu(dense(norm(x)))))`, or post-norm,
    `x = norm(x + mixer(x))`, `x = norm(x + dense(dropout(gelu(dense(x)))))`.

    Input and output: `(batch, tokens, channels)`. An `attention_mask` goes to the mixer.

    Args:
        mixer: The layer that mixes tokens.
        mlp_dim: Hidden width of the channel mixer.
        dropout: Rate of the two dropouts of the channel mixer.
        epsilon: Epsilon of the layer normalisations.
        norm_first: Whether to normalise what is mixed (pre-norm) or the sum (post-norm).
    """

    def __init__(self, mixer, mlp_dim, dropout=0.0, epsilon=1e-5, norm_first=True, **kwargs):
        super().__init__(**kwargs)
        self.supports_masking = True
        self.mixer = keras.layers.deserialize(mixer) if isinstance(mixer, dict) else mixer
        self.mlp_dim = mlp_dim
        self.dropout = dropout
        self.epsilon = epsilon
        self.norm_first = norm_first

    def build(self, input_shape):
        width, policy = input_shape[-1], self.dtype_policy
        norm = dict(epsilon=self.epsilon, dtype=policy)
        self.mixer_norm = keras.layers.LayerNormalization(**norm, name="mixer_norm")
        self.mlp_norm = keras.layers.LayerNormalization(**norm, name="mlp_norm")
        self.mlp_in = Dense(self.mlp_dim, "gelu", dtype=policy, name="mlp_in")
        self.mlp_out = Dense(width, dtype=policy, name="mlp_out")
        self.hidden_dropout = make_dropout(self.dropout, dtype=policy)
        self.output_dropout = make_dropout(self.dropout, dtype=policy)
        for layer in (self.mixer_norm, self.mixer, self.mlp_norm, self.mlp_in):
            layer.build(input_shape)
        self.mlp_out.build((*input_shape[:-1], self.mlp_dim))

    def call(self, tokens, mask=None, attention_mask=None):
        masks = {} if attention_mask is None else {"attention_mask": attention_mask}
        if self.norm_first:
            tokens = tokens + self.mixer(self.mixer_norm(tokens), mask=mask, **masks)
            return tokens + self._mlp(self.mlp_norm(tokens))
        tokens = self.mixer_norm(tokens + self.mixer(tokens, mask=mask, **masks))
        return self.mlp_norm(tokens + self._mlp(tokens))

    def _mlp(self, tokens):
        hidden = self.hidden_dropout(self.mlp_in(tokens))
        return self.output_dropout(self.mlp_out(hidden))

    def compute_output_shape(self, input_shape):
        return tuple(input_shape)

    def get_config(self):
        return {
            **super().get_config(),
            "mixer": keras.layers.serialize(self.mixer),
            "mlp_dim": self.mlp_dim,
            "dropout": self.dropout,
            "epsilon": self.epsilon,
            "norm_first": self.norm_first,
        }
