"""Define the normalizations and the feed-forward layer of MEGA."""

import keras
from keras import ops

from keras_permix.layers.parts.wrappers import Composite, Dense, make_dropout
from keras_permix.ops.reference.linear import full_precision
from keras_permix.utils.checks import check_choice, check_integer, check_rate

EPSILON = 1e-5


@keras.saving.register_keras_serializable("keras_permix")
class ScaleNorm(Composite):
    """Scale every token to one learned length: `scale * x / sqrt(mean(x**2) + epsilon)`.

    Input and output: `(…, channels)`. Computed in float32, or in float64 for float64 inputs.

    Args:
        epsilon: Added to the mean.

    Example:

    >>> import numpy as np
    >>> from keras_permix.layers.mega.mega_feed_forward import ScaleNorm
    >>> outputs = keras.ops.convert_to_numpy(ScaleNorm()(np.array([[3.0, -3.0]], "float32")))
    >>> outputs.round(3).tolist()
    [[1.0, -1.0]]

    Reference:
        Nguyen and Salazar, "Transformers without Tears: Improving the Normalization of
        Self-Attention", 2019, arXiv:1910.05895, with the mean in place of the sum, as in the
        released code of MEGA.
    """

    def __init__(self, epsilon=EPSILON, **kwargs):
        super().__init__(**kwargs)
        self.supports_masking = True
        self.epsilon = epsilon

    def build(self, input_shape):
        self.scale = self.add_weight(shape=(), initializer="ones", name="scale", autocast=False)

    def call(self, inputs):
        x = ops.cast(inputs, full_precision(inputs.dtype))  # squares overflow in float16
        # Not `ops.mean`, which does not keep float64 on PyTorch.
        mean = ops.sum(ops.square(x), axis=-1, keepdims=True) / x.shape[-1]
        return ops.cast(self.scale * x * ops.rsqrt(mean + self.epsilon), inputs.dtype)


NORMS = {
    "layernorm": keras.layers.LayerNormalization,
    "scalenorm": ScaleNorm,
    "rmsnorm": keras.layers.RMSNormalization,
    "batchnorm": keras.layers.BatchNormalization,
}


def make_norm(norm, **kwargs):
    """Make a normalization layer; `norm` is a key of `NORMS`."""
    momentum = {"momentum": 0.9} if norm == "batchnorm" else {}
    layer = NORMS[norm](epsilon=EPSILON, **momentum, **kwargs)
    layer.supports_masking = True  # not set by Keras' RMSNormalization
    return layer


def normalize(norm, inputs, mask):
    """Call a norm; the statistics of "batchnorm" exclude padding."""
    if isinstance(norm, keras.layers.BatchNormalization):
        return norm(inputs, mask=mask)
    return norm(inputs)


@keras.saving.register_keras_serializable("keras_permix")
class MegaFeedForward(Composite):
    """Mix channels: `x + dense(silu(dense(norm(x))))`, or the norm of that sum.

    Input and output: `(batch, tokens, channels)`. A mask `(batch, tokens)` is True at real tokens.
    The statistics of "batchnorm" exclude padding.

    Args:
        mlp_dim: Hidden width.
        norm: "layernorm", "scalenorm", "rmsnorm" or "batchnorm".
        norm_first: Whether the norm comes before the first product or after the sum.
        dropout: Rate of the dropout after the second product.
        hidden_dropout: Rate of the dropout before the second product.

    Raises:
        ValueError: for an argument out of range.

    Example:

    >>> import numpy as np
    >>> from keras_permix.layers.mega.mega_feed_forward import MegaFeedForward
    >>> tuple(MegaFeedForward(mlp_dim=64)(np.ones((2, 64, 32), "float32")).shape)
    (2, 64, 32)

    Reference:
        Ma et al., "Mega: Moving Average Equipped Gated Attention", 2022, arXiv:2209.10655, the
        released code.
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
