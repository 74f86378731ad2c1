"""The sparse linear MLP of the Dimension Mixer, in the manner of Monarch matrices."""

import math
from typing import Any

import keras

from keras_permix._typing import Shape, Tensor
from keras_permix.layers.butterfly.block_dense import BlockDense, as_columns, as_rows
from keras_permix.layers.parts.composite import Composite
from keras_permix.ops.butterfly import exchange
from keras_permix.utils.checks import check_integer


@keras.saving.register_keras_serializable("keras_permix")
class ButterflyLinearMLP(Composite):
    """An MLP of two linear maps, each a product of two block-diagonal ones.

    With `channels = b * b` and `h = b * expansion`: `b` blocks `(b, h)` → transpose → `h` blocks
    `(b, b)`, bias → activation → `h` blocks `(b, b)` → transpose → `b` blocks `(h, b)`, bias.
    A transposition exchanges blocks and members, so that each map mixes everything.

    Input and output: `(..., channels)`.

    Args:
        expansion: Hidden units for each channel.
        activation: What `keras.activations.get` takes, called for all hidden channels, the last
            axis; those that are not Keras' own, or mix channels, cost transpositions.

    Raises:
        ValueError: for an argument out of range, or a number of channels that is no square.

    Example:

    >>> import numpy as np
    >>> from keras_permix.layers import ButterflyLinearMLP
    >>> layer = ButterflyLinearMLP()
    >>> tuple(layer(np.ones((2, 64), "float32")).shape), layer.count_params()
    ((2, 64), 2176)

    Source: Sapkota & Bhattarai, "Dimension Mixer", 2023, Table II.
    """

    def __init__(self, expansion: int = 1, activation: Any = "elu", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.supports_masking = True
        self.expansion = check_integer("expansion", expansion)
        self.activation = keras.activations.get(activation)

    def build(self, input_shape: Shape) -> None:
        channels = input_shape[-1] or 0
        side = math.isqrt(channels)
        if side < 2 or side**2 != channels:
            raise ValueError(
                "ButterflyLinearMLP takes a square number of channels. "
                f"Received: input_shape={tuple(input_shape)}"
            )
        wide, policy = side * self.expansion, self.dtype_policy
        gather = dict(axis=0, dtype=policy)
        spread = dict(use_bias=False, **gather)
        self.mlp_in = [
            BlockDense(side, wide, **spread, name="mlp_in_spread"),
            BlockDense(wide, side, self.activation, **gather, name="mlp_in_gather"),
        ]
        self.mlp_out = [
            BlockDense(wide, side, **spread, name="mlp_out_spread"),
            BlockDense(side, side, **gather, name="mlp_out_gather"),
        ]
        self.mlp_in[0].build((channels, None))
        for layer in (self.mlp_in[1], *self.mlp_out):
            layer.build((side * wide, None))

    def call(self, inputs: Tensor) -> Tensor:
        columns, shape = as_columns(inputs)
        for spread, gather in (self.mlp_in, self.mlp_out):
            columns = spread(columns)
            # As a matrix with a block in each row, transposed.
            columns = exchange(columns, spread.blocks, columns.shape[0] // spread.blocks, axis=0)
            columns = gather(columns)
        return as_rows(columns, shape)

    def compute_output_shape(self, input_shape: Shape) -> Shape:
        return tuple(input_shape)

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "expansion": self.expansion,
            "activation": keras.activations.serialize(self.activation),
        }
