"""A dense layer whose kernel is block-diagonal."""

import math
from typing import Any

import keras
from keras import ops

from keras_permix._typing import Shape, Tensor
from keras_permix.layers.parts.checks import check_choice, check_integer


@keras.saving.register_keras_serializable("keras_permix")
class BlockDense(keras.layers.Layer):
    """Multiply every block of the channels by a kernel of its own.

    The axis of the channels is cut into `blocks` runs of equal length; run `k` of the output is
    `activation(run_k @ kernel[k] + bias[k])`. Blocks are small, so that the product is one of
    channels by tokens, which is several times as fast as that of tokens by channels; layers that
    follow each other with `axis=0` do without the transpositions.

    Input: `(..., blocks * in)`. Output: `(..., blocks * units)`. With `axis=0` the channels come
    first in both. Kernel: `(blocks, in, units)`, bias: `(blocks, 1, units)`.

    Args:
        blocks: Number of blocks; it divides the number of channels.
        units: Output channels per block.
        activation: What `keras.activations.get` takes, and works element by element.
        use_bias: Whether to add a bias.
        kernel_initializer: Called for the whole kernel `(blocks, in, units)`. `None`: Glorot
            uniform within each block.
        axis: Where the channels are: the last axis (-1) or the first (0).

    Raises:
        ValueError: for an argument out of range, an activation of Keras that mixes channels, or a
            number of channels that `blocks` does not divide.

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
        self.supports_masking = True
        self.axis = check_choice("axis", axis, (-1, 0))
        self.blocks = check_integer("blocks", blocks)
        self.units = check_integer("units", units)
        self.activation = check_activation(activation)
        self.use_bias = use_bias
        self.kernel_initializer = keras.initializers.get(kernel_initializer)

    def build(self, input_shape: Shape) -> None:
        channels = input_shape[self.axis]
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
        columns, shape = (inputs, None) if self.axis == 0 else as_columns(inputs)
        others = ops.shape(columns)[1:]
        runs = ops.reshape(columns, (self.blocks, columns.shape[0] // self.blocks, -1))
        outputs = ops.matmul(ops.swapaxes(self.kernel, 1, 2), runs)
        if self.use_bias:
            outputs = outputs + ops.swapaxes(self.bias, 1, 2)
        outputs = ops.reshape(self.activation(outputs), (self.blocks * self.units, *others))
        return outputs if shape is None else as_rows(outputs, shape)

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
    return ops.reshape(ops.moveaxis(x, -1, 0), (x.shape[-1], -1)), ops.shape(x)


def as_rows(columns, shape):
    """Put the channels last again, beside the other axes of `shape`."""
    return ops.moveaxis(ops.reshape(columns, (columns.shape[0], *shape[:-1])), 0, -1)


def check_activation(activation):
    """Return an activation that works element by element, in whatever order channels are kept."""
    function = keras.activations.get(activation)
    name = getattr(function, "__name__", "")
    if name in ("softmax", "log_softmax", "sparsemax", "glu"):
        raise ValueError(
            f"`activation` must work element by element. Received: activation={activation!r}"
        )
    return function
