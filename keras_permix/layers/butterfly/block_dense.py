"""Apply dense layers with block-diagonal kernels."""

import math
from typing import Any

import keras
from keras import ops

from keras_permix._typing import Shape, Tensor
from keras_permix.layers.parts.wrappers import Composite
from keras_permix.ops.reference.linear import matmul
from keras_permix.utils.checks import check_integer

# Common activations that do not depend on the order of axes.
ELEMENTWISE = ("elu", "gelu", "leaky_relu", "linear", "relu", "sigmoid", "silu", "tanh")


@keras.saving.register_keras_serializable("keras_permix")
class BlockDense(Composite):
    """Multiply every block of the channels by a separate kernel.

    The channels are cut into `blocks` runs of equal length; run `k` of the output is
    `run_k @ kernel[k] + bias[k]`. The layer transposes its input to channels first; consecutive
    layers with `axis=0` avoid this.

    Input: `(..., blocks * in)`. Output: `(..., blocks * units)`. With `axis=0` the channels come
    first in both. Kernel: `(blocks, in, units)`, bias: `(blocks, 1, units)`.

    Args:
        blocks: Number of blocks. It must divide the number of channels.
        units: Output channels per block.
        activation: Any argument of `keras.activations.get`, applied with the channels last. With
            `axis=0`, all but the most common ones add transpositions.
        use_bias: Whether to add a bias.
        kernel_initializer: Called for the whole kernel `(blocks, in, units)`. `None`: Glorot
            uniform within each block.
        axis: Axis of the channels, the last (-1) or the first (0).

    Raises:
        ValueError: for an argument out of range, or a number of channels that `blocks` does not
            divide.

    Example:
        >>> import numpy as np
        >>> from keras_permix.layers import BlockDense
        >>> tuple(BlockDense(blocks=4, units=6)(np.ones((2, 5, 32), "float32")).shape)
        (2, 5, 24)

    Reference: Sapkota & Bhattarai, "Dimension Mixer", 2023, arXiv:2311.18735.
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
        axis = check_integer("axis", axis, least=-1)
        activation = keras.activations.get(activation)
        kernel_initializer = keras.initializers.get(kernel_initializer)
        self._store(locals(), axis=(-1, 0))
        self.supports_masking = axis == -1

    def build(self, input_shape: Shape) -> None:
        channels = input_shape[self.axis]
        if not channels or channels % self.blocks:
            rule = "`blocks` must divide the number of channels."
            raise ValueError(f"{rule} Received: blocks={self.blocks}, {channels=}")
        width = channels // self.blocks
        limit = math.sqrt(6 / (width + self.units))
        uniform = keras.initializers.RandomUniform(-limit, limit)
        self.kernel = self.add_weight(
            shape=(self.blocks, width, self.units),
            initializer=self.kernel_initializer or uniform,
            name="kernel",
        )
        self.kernel.is_stack_of_matrices = True  # read by `training.BlockMuon`
        if self.use_bias:
            self.bias = self.add_weight(
                shape=(self.blocks, 1, self.units), initializer="zeros", name="bias"
            )

    def call(self, inputs: Tensor) -> Tensor:
        if self.axis == 0:
            columns = self._product(inputs)
            if any(self.activation is getattr(keras.activations, name) for name in ELEMENTWISE):
                return self.activation(columns)
            return to_front(self.activation(to_back(columns)))
        columns, shape = as_columns(inputs)
        return self.activation(as_rows(self._product(columns), shape))

    def _product(self, columns):
        runs = ops.reshape(columns, (self.blocks, self.kernel.shape[1], -1))
        outputs = matmul(ops.swapaxes(self.kernel, 1, 2), runs)
        if self.use_bias:
            outputs = outputs + ops.swapaxes(self.bias, 1, 2)
        return ops.reshape(outputs, (self.blocks * self.units, *ops.shape(columns)[1:]))

    def compute_output_shape(self, input_shape: Shape) -> Shape:
        shape = list(input_shape)
        shape[self.axis] = self.blocks * self.units
        return tuple(shape)


def as_columns(x):
    """Return `x` as `(channels, all others)`, and the shape of `x`."""
    return ops.reshape(to_front(x), (x.shape[-1], -1)), ops.shape(x)


def as_rows(columns, shape):
    """Undo `as_columns`, with the leading axes of `shape`."""
    return to_back(ops.reshape(columns, (columns.shape[0], *shape[:-1])))


def to_front(x):
    """Put the last axis first. Exporters and `vmap` do not support `moveaxis` here."""
    axes = range(len(x.shape))
    return ops.transpose(x, (axes[-1], *axes[:-1]))


def to_back(x):
    """Put the first axis last."""
    axes = range(len(x.shape))
    return ops.transpose(x, (*axes[1:], 0))
