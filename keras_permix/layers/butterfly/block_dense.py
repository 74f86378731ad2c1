"""A dense layer whose kernel is block-diagonal."""

import math
from typing import Any

import keras
from keras import ops

from keras_permix._typing import Shape, Tensor
from keras_permix.layers.parts.checks import check_integer


@keras.saving.register_keras_serializable("keras_permix")
class BlockDense(keras.layers.Layer):
    """Multiply every block of the channels by a kernel of its own.

    The last axis is cut into `blocks` runs of equal length; run `k` of the output is
    `activation(run_k @ kernel[k] + bias[k])`.

    Input: `(..., blocks * in)`. Output: `(..., blocks * units)`. Kernel: `(blocks, in, units)`,
    bias: `(blocks, 1, units)`.

    Args:
        blocks: Number of blocks; it divides the number of channels.
        units: Output channels per block.
        activation: What `keras.activations.get` takes.
        use_bias: Whether to add a bias.
        kernel_initializer: Called for the whole kernel `(blocks, in, units)`. `None`: Glorot
            uniform within each block.

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
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.supports_masking = True
        self.blocks = check_integer("blocks", blocks)
        self.units = check_integer("units", units)
        self.activation = keras.activations.get(activation)
        self.use_bias = use_bias
        self.kernel_initializer = keras.initializers.get(kernel_initializer)

    def build(self, input_shape: Shape) -> None:
        channels = input_shape[-1]
        if channels is None or channels % self.blocks:
            raise ValueError(
                "`blocks` must divide the number of channels, which must be known. "
                f"Received: blocks={self.blocks}, input_shape={tuple(input_shape)}"
            )
        width = channels // self.blocks
        limit = math.sqrt(6 / (width + self.units))
        self.kernel = self.add_weight(
            shape=(self.blocks, width, self.units),
            initializer=self.kernel_initializer or keras.initializers.RandomUniform(-limit, limit),
            name="kernel",
        )
        if self.use_bias:
            self.bias = self.add_weight(
                shape=(self.blocks, 1, self.units), initializer="zeros", name="bias"
            )

    def call(self, inputs: Tensor) -> Tensor:
        shape = ops.shape(inputs)[:-1]
        runs = ops.reshape(inputs, (*shape, self.blocks, inputs.shape[-1] // self.blocks))
        outputs = ops.einsum("...ki,kio->...ko", runs, self.kernel)
        if self.use_bias:
            outputs = outputs + self.bias[:, 0]
        outputs = ops.reshape(outputs, (*shape, self.blocks * self.units))
        return self.activation(outputs)

    def compute_output_shape(self, input_shape: Shape) -> Shape:
        return (*input_shape[:-1], self.blocks * self.units)

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "blocks": self.blocks,
            "units": self.units,
            "activation": keras.activations.serialize(self.activation),
            "use_bias": self.use_bias,
            "kernel_initializer": keras.initializers.serialize(self.kernel_initializer),
        }
