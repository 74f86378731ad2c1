"""The feed-forward layer of MEGA, with its norm and its residual."""

import keras

from keras_permix.layers.mega.norms import NORMS, make_norm, normalize
from keras_permix.layers.parts.composite import Composite
from keras_permix.layers.parts.dense import Dense
from keras_permix.layers.parts.dropout import make_dropout
from keras_permix.utils.checks import check_choice, check_integer, check_rate


@keras.saving.register_keras_serializable("keras_permix")
class MegaFeedForward(Composite):
    """Mix channels: `x + dense(silu(dense(norm(x))))`, or the norm of that sum.

    Input and output: `(batch, tokens, channels)`. A mask `(batch, tokens)` is True at real tokens;
    the statistics of "batchnorm" are taken of these.

    Args:
        mlp_dim: Hidden width.
        norm: "layernorm", "scalenorm", "rmsnorm" or "batchnorm".
        norm_first: Whether the norm comes before the first product or after the sum.
        dropout: Rate of the dropout after the second product.
        hidden_dropout: Rate of the dropout before it.

    Raises:
        ValueError: for an argument out of range.

    Example:

    >>> import numpy as np
    >>> from keras_permix.layers.mega.mega_feed_forward import MegaFeedForward
    >>> tuple(MegaFeedForward(mlp_dim=64)(np.ones((2, 64, 32), "float32")).shape)
    (2, 64, 32)

    Source: the released code of Ma et al., "Mega: Moving Average Equipped Gated Attention", 2022.
    """

    def __init__(
        self, mlp_dim, norm="layernorm", norm_first=True, dropout=0.0, hidden_dropout=0.0, **kwargs
    ):
        super().__init__(**kwargs)
        self.supports_masking = True
        self.mlp_dim = check_integer("mlp_dim", mlp_dim)
        self.norm = check_choice("norm", norm, NORMS)
        self.norm_first = norm_first
        self.dropout = check_rate("dropout", dropout)
        self.hidden_dropout = check_rate("hidden_dropout", hidden_dropout)

    def build(self, input_shape):
        policy = self.dtype_policy
        self.norm_layer = make_norm(self.norm, dtype=policy, name="norm")
        self.norm_layer.build(input_shape)
        kernel = dict(kernel_initializer=keras.initializers.RandomNormal(stddev=0.02), dtype=policy)
        self.mlp_in = Dense(self.mlp_dim, "silu", **kernel, name="mlp_in")
        self.mlp_in.build(input_shape)
        self.mlp_out = Dense(input_shape[-1], **kernel, name="mlp_out")
        self.mlp_out.build((*input_shape[:-1], self.mlp_dim))
        self.middle_dropout = make_dropout(self.hidden_dropout, dtype=policy)
        self.output_dropout = make_dropout(self.dropout, dtype=policy)

    def call(self, inputs, mask=None):
        x = normalize(self.norm_layer, inputs, mask) if self.norm_first else inputs
        x = inputs + self.output_dropout(self.mlp_out(self.middle_dropout(self.mlp_in(x))))
        return x if self.norm_first else normalize(self.norm_layer, x, mask)

    def compute_output_shape(self, input_shape):
        return tuple(input_shape)

    def get_config(self):
        return {
            **super().get_config(),
            "mlp_dim": self.mlp_dim,
            "norm": self.norm,
            "norm_first": self.norm_first,
            "dropout": self.dropout,
            "hidden_dropout": self.hidden_dropout,
        }
