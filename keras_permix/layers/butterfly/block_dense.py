"""A dense layer whose kernel is block-diagonal."""

import math
from typing import Any

import keras
from keras import ops

from keras_permix._typing import Shape, Tensor
from keras_permix.checks import check_choice, check_integer
from keras_permix.ops.reference.precision import matmul

# Activations of Keras that work element by element, in whatever order the elements are.
ELEMENTWISE = (
    "celu", "elu", "exponential", "gelu", "hard_shrink", "hard_sigmoid", "hard_silu", "hard_tanh",
    "leaky_relu", "linear", "log_sigmoid", "mish", "relu", "relu6", "selu", "sigmoid", "silu",
    "soft_shrink", "softplus", "softsign", "sparse_plus", "sparse_sigmoid", "squareplus", "tanh",
    "tanh_shrink", "threshold",
)  # fmt: skip


@keras.saving.register_keras_serializable("keras_permix")
class BlockDense(keras.layers.Layer):
    """Multiply every block of the channels by a kernel of its own.

    The axis of the channels is cut into `blocks` runs of equal length; run `k` of the output is
    `run_k @ kernel[k] + bias[k]`. Blocks are small, so that the product is one of channels by
    tokens, whose rows are long; layers that follow each other with `axis=0` do without the
    transpositions.

    Input: `(..., blocks * in)`. Output: `(..., blocks * units)`. With `axis=0` the channels come
    first in both. Kernel: `(blocks, in, units)`, bias: `(blocks, 1, units)`.

    Args:
        blocks: Number of blocks; it divides the number of channels.
        units: Output channels per block.
        activation: What `keras.activations.get` takes, called for all channels, the last axis.
            With `axis=0` those that are not Keras' own, or mix channels, cost transpositions.
        use_bias: Whether to add a bias.
        kernel_initializer: Called for the whole kernel `(blocks, in, units)`. `None`: Glorot
            uniform within each block.
        axis: Where the channels are: the last axis (-1) or the first (0).

    Raises:
        ValueError: for an argument out of range, or a number of channels that `blocks` does not
            divide.

    Example:

    >>> import numpy as np
    >>> from keras_permix.layers import BlockDense
    >>> tuple(BlockDense(blocks=4, units=6)(np.ones((2, 5, 32), "float32")).shape)
    (2, 5, 24)

    Source: Sapkota & Bhattarai, "Dimension Mixer", 2023.
    """

    def __init__(
        self,
        blocks: int,
        units: int,
        activation: Any = None,
        use_bias: bool = True,
        kernel_initializer: Any = None,
        axis: int = -1,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.axis = check_choice("axis", check_integer("axis", axis, least=-1), (-1, 0))
        self.supports_masking = self.axis == -1
        self.blocks = check_integer("blocks", blocks)
        self.units = check_integer("units", units)
        self.activation = keras.activations.get(activation)
        self.use_bias = use_bias
        self.kernel_initializer = keras.initializers.get(kernel_initializer)

    def build(self, input_shape: Shape) -> None:
        channels = input_shape[self.axis]
        if not channels or channels % self.blocks:
            raise ValueError(
                "`blocks` must divide the number of channels, which must be known, and 1 or more. "
                f"Received: blocks={self.blocks}, input_shape={tuple(input_shape)}"
            )
        width = channels // self.blocks
        limit = math.sqrt(6 / (width + self.units))
        self.kernel = self.add_weight(
            shape=(self.blocks, width, self.units),
            initializer=self.kernel_initializer or keras.initializers.RandomUniform(-limit, limit),
            name="kernel",
        )
        self.kernel.is_stack_of_matrices = True  # `training.BlockMuon` asks
        if self.use_bias:
            self.bias = self.add_weight(
                shape=(self.blocks, 1, self.units), initializer="zeros", name="bias"
            )

    def call(self, inputs: Tensor) -> Tensor:
        if self.axis == 0:
            columns = self._product(inputs)
            if any(self.activation is getattr(keras.activations, name) for name in ELEMENTWISE):
                return self.activation(columns)
            return to_front(self._activated(to_back(columns)))
        columns, shape = as_columns(inputs)
        return self._activated(as_rows(self._product(columns), shape))

    def _product(self, columns):
        runs = ops.reshape(columns, (self.blocks, self.kernel.shape[1], -1))
        outputs = matmul(ops.swapaxes(self.kernel, 1, 2), runs)
        if self.use_bias:
            outputs = outputs + ops.swapaxes(self.bias, 1, 2)
        return ops.reshape(outputs, (self.blocks * self.units, *ops.shape(columns)[1:]))

    def _activated(self, rows):
        outputs = self.activation(rows)
        if outputs.shape[-1] != rows.shape[-1]:
            raise ValueError(
                "`activation` must keep the shape. "
                f"Received: activation={self.activation!r}, which makes of {rows.shape[-1]} "
                f"channels {outputs.shape[-1]}"
            )
        return outputs

    def compute_output_shape(self, input_shape: Shape) -> Shape:
        shape = list(input_shape)
        shape[self.axis] = self.blocks * self.units
        return tuple(shape)

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "blocks": self.blocks,
            "units": self.units,
            "activation": keras.activations.serialize(self.activation),
            "use_bias": self.use_bias,
            "kernel_initializer": keras.initializers.serialize(self.kernel_initializer),
            "axis": self.axis,
        }


def as_columns(x):
    """Put the channels first, `(..., channels)` to `(channels, all others)`; and the shape."""
    return ops.reshape(to_front(x), (x.shape[-1], -1)), ops.shape(x)


def as_rows(columns, shape):
    """Put the channels last again, beside the other axes of `shape`."""
    return to_back(ops.reshape(columns, (columns.shape[0], *shape[:-1])))


def to_front(x):
    """Put the last axis first. Exporters and `vmap` take no `moveaxis` for that."""
    axes = range(len(x.shape))
    return ops.transpose(x, (axes[-1], *axes[:-1]))


def to_back(x):
    """Put the first axis last."""
    axes = range(len(x.shape))
    return ops.transpose(x, (*axes[1:], 0))
