"""Define the normalizations and the feed-forward layer of MEGA."""

from typing import Any

import keras
from keras import ops

from keras_permix.layers.parts.wrappers import Composite, make_dropout
from keras_permix.ops.reference.linear import full_precision

EPSILON = 1e-5
STDDEV = 0.02  # of initial kernels


@keras.saving.register_keras_serializable("keras_permix")
class ScaleNorm(Composite):
    """Scale every token to one learned length: `scale * x / sqrt(mean(x**2) + epsilon)`.

    Reference: Nguyen & Salazar, "Transformers without Tears", 2019, arXiv:1910.05895, with the mean
    in place of the sum, as in the released code of MEGA.
    """

    def __init__(self, epsilon=EPSILON, **kwargs):
        super().__init__(**kwargs)
        self.epsilon = epsilon

    def build(self, input_shape):
        self.scale = self.add_weight(shape=(), initializer="ones", name="scale", autocast=False)

    def call(self, inputs):
        x = ops.cast(inputs, full_precision(inputs.dtype))  # squares overflow in float16
        # Not `ops.mean`, which computes in float32 on PyTorch.
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

    `dropout` follows the second product, and `hidden_dropout` the first.
    """

    def __init__(
        self,
        mlp_dim: int,
        norm: str = "layernorm",
        norm_first: bool = True,
        dropout: float = 0.0,
        hidden_dropout: float = 0.0,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self._store(locals(), norm=NORMS)

    def build(self, input_shape):
        policy, outer, width = self.dtype_policy, input_shape[:-1], input_shape[-1]
        self.norm_layer = make_norm(self.norm, dtype=policy, name="norm")
        self.norm_layer.build(input_shape)
        self.mlp_in = self._dense("mlp_in", self.mlp_dim, input_shape, "silu", STDDEV)
        self.mlp_out = self._dense("mlp_out", width, (*outer, self.mlp_dim), stddev=STDDEV)
        self.middle_dropout = make_dropout(self.hidden_dropout, dtype=policy)
        self.output_dropout = make_dropout(self.dropout, dtype=policy)

    def call(self, inputs, mask=None):
        x = normalize(self.norm_layer, inputs, mask) if self.norm_first else inputs
        x = inputs + self.output_dropout(self.mlp_out(self.middle_dropout(self.mlp_in(x))))
        return x if self.norm_first else normalize(self.norm_layer, x, mask)
