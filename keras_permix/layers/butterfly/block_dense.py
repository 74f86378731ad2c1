"""Apply dense layers with block-diagonal kernels."""

import math
from typing import Any

import keras
from keras import ops

from keras_permix._typing import Shape, Tensor
from keras_permix.layers.parts.wrappers import Composite
from keras_permix.ops.reference.linear import full_precision, matmul
from keras_permix.utils.checks import check_integer

# Elementwise activations of Keras, which do not depend on the order of axes.
ELEMENTWISE = (
    "celu", "elu", "exponential", "gelu", "hard_shrink", "hard_sigmoid", "hard_silu", "hard_tanh",
    "leaky_relu", "linear", "log_sigmoid", "mish", "relu", "relu6", "selu", "sigmoid", "silu",
    "soft_shrink", "softplus", "softsign", "sparse_plus", "sparse_sigmoid", "squareplus", "tanh",
    "tanh_shrink", "threshold",
)  # fmt: skip


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
            `axis=0`, custom activations and those that mix channels add transpositions.
        use_bias: Whether to add a bias.
        kernel_initializer: Called for the whole kernel `(blocks, in, units)`. `None`: Glorot
            uniform within each block.
        axis: Axis of the channels, the last (-1) or the first (0).
        lora_rank, lora_alpha: With a rank, `build` calls `enable_lora` with both.

    Raises:
        ValueError: for an argument out of range, or a number of channels that `blocks` does not
            divide.

    Example:

    >>> import numpy as np
    >>> from keras_permix.layers import BlockDense
    >>> tuple(BlockDense(blocks=4, units=6)(np.ones((2, 5, 32), "float32")).shape)
    (2, 5, 24)

    Reference:
        Sapkota and Bhattarai, "Dimension Mixer: A Generalized Method for Structured Sparsity in
        Deep Neural Networks", 2023, arXiv:2311.18735.
    """

    lora_rank: Any
    lora_alpha: Any

    def __init__(
        self,
        blocks: int,
        units: int,
        activation: Any = None,
        use_bias: bool = True,
        kernel_initializer: Any = None,
        axis: int = -1,
        lora_rank: int | None = None,
        lora_alpha: float | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        axis = check_integer("axis", axis, least=-1)
        activation = keras.activations.get(activation)
        kernel_initializer = keras.initializers.get(kernel_initializer)
        lora_alpha = lora_rank if lora_alpha is None else lora_alpha
        self._store(locals(), axis=(-1, 0))
        self.supports_masking = axis == -1
        self.lora_enabled = False

    def build(self, input_shape: Shape) -> None:
        channels = input_shape[self.axis]
        if not channels or channels % self.blocks:
            raise ValueError(
                "`blocks` must divide the number of channels, which must be known, and 1 or more. "
                f"Received: blocks={self.blocks}, input_shape={tuple(input_shape)}"
            )
        width = channels // self.blocks
        limit = math.sqrt(6 / (width + self.units))
        uniform = keras.initializers.RandomUniform(-limit, limit)
        self._kernel = self._add_stack(
            "kernel", (self.blocks, width, self.units), self.kernel_initializer or uniform
        )
        if self.use_bias:
            self.bias = self.add_weight(
                shape=(self.blocks, 1, self.units), initializer="zeros", name="bias"
            )
        if self.lora_rank:
            self.built = True
            self.enable_lora(self.lora_rank, self.lora_alpha)

    def _add_stack(self, name, shape, initializer, dtype=None):
        """Add a weight that holds one matrix per block."""
        weight = self.add_weight(shape, initializer, dtype, name=name)
        weight.is_stack_of_matrices = True  # read by `training.BlockMuon`
        return weight

    @property
    def kernel(self) -> Any:
        """Return the kernel; with LoRA, the sum of its frozen and trained parts."""
        return ops.cast(self._merged(), self.compute_dtype) if self.lora_enabled else self._kernel

    def _merged(self):
        dtype = full_precision(self._kernel.dtype)
        weights = (self._kernel, self.lora_kernel_a, self.lora_kernel_b)
        kernel, a, b = (ops.cast(weight, dtype) for weight in weights)
        return kernel + self.lora_alpha / self.lora_rank * matmul(a, b)

    def enable_lora(
        self,
        rank: int,
        lora_alpha: float | None = None,
        a_initializer: Any = "he_uniform",
        b_initializer: Any = "zeros",
    ) -> None:
        """Freeze the kernel, and train a low-rank update for each block.

        As in `keras.layers.Dense`, the two factors `(blocks, in, rank)` and `(blocks, rank, units)`
        are float32, and files hold the sum, which layers without LoRA can load. Compile the model
        again afterwards.

        Args:
            rank: Rank of the update of a block.
            lora_alpha: The product of the factors is scaled by `lora_alpha / rank`. Defaults to
                `rank`.
            a_initializer, b_initializer: Any arguments of `keras.initializers.get`, for the first
                and the second factor. Called once, for all blocks side by side.

        Raises:
            ValueError: for a rank out of range, or if the layer is not built or has LoRA already.

        Example:

        >>> from keras_permix.layers import BlockDense
        >>> layer = BlockDense(blocks=4, units=8)
        >>> layer.build((None, 32))
        >>> layer.enable_lora(2)
        >>> [tuple(weight.shape) for weight in layer.trainable_weights]
        [(4, 1, 8), (4, 8, 2), (4, 2, 8)]
        """
        if not self.built or self.lora_enabled:
            raise ValueError(
                "`enable_lora` requires a built layer, and can be called only once. "
                f"Received: built={self.built}, lora_enabled={self.lora_enabled}"
            )
        rank = self.lora_rank = check_integer("rank", rank)
        self.lora_alpha = rank if lora_alpha is None else lora_alpha
        blocks, width, units = self._kernel.shape
        a, b = _side_by_side(a_initializer), _side_by_side(b_initializer)
        self._tracker.unlock()
        self.lora_kernel_a = self._add_stack("lora_kernel_a", (blocks, width, rank), a, "float32")
        self.lora_kernel_b = self._add_stack("lora_kernel_b", (blocks, rank, units), b, "float32")
        self._tracker.lock()
        self._kernel.trainable = False
        self.lora_enabled = True

    def save_own_variables(self, store: Any) -> None:
        """Write the weights to `store`; with LoRA, the kernel is the sum of its parts."""
        if not self.lora_enabled:
            super().save_own_variables(store)
            return
        store["0"] = ops.cast(self._merged(), self._kernel.dtype)
        if self.use_bias:
            store["1"] = self.bias

    def load_own_variables(self, store: Any) -> None:
        """Read the weights from `store`; with LoRA, reset the update to zero."""
        if not self.lora_enabled:
            super().load_own_variables(store)
            return
        self._kernel.assign(store["0"])
        if self.use_bias:
            self.bias.assign(store["1"])
        self.lora_kernel_b.assign(ops.zeros(self.lora_kernel_b.shape))

    def call(self, inputs: Tensor) -> Tensor:
        if self.axis == 0:
            columns = self._product(inputs)
            if any(self.activation is getattr(keras.activations, name) for name in ELEMENTWISE):
                return self.activation(columns)
            return to_front(self._activated(to_back(columns)))
        columns, shape = as_columns(inputs)
        return self._activated(as_rows(self._product(columns), shape))

    def _product(self, columns):
        kernel = self.kernel
        runs = ops.reshape(columns, (self.blocks, kernel.shape[1], -1))
        outputs = matmul(ops.swapaxes(kernel, 1, 2), runs)
        if self.use_bias:
            outputs = outputs + ops.swapaxes(self.bias, 1, 2)
        return ops.reshape(outputs, (self.blocks * self.units, *ops.shape(columns)[1:]))

    def _activated(self, rows):
        outputs = self.activation(rows)
        if outputs.shape[-1] != rows.shape[-1]:
            raise ValueError(
                "`activation` must keep the shape. "
                f"Received: activation={self.activation!r}, which returns {outputs.shape[-1]} "
                f"channels for {rows.shape[-1]}"
            )
        return outputs

    def compute_output_shape(self, input_shape: Shape) -> Shape:
        shape = list(input_shape)
        shape[self.axis] = self.blocks * self.units
        return tuple(shape)

    def get_config(self) -> dict[str, Any]:
        config = super().get_config()
        if self.lora_rank is None:
            del config["lora_rank"], config["lora_alpha"]
        return config


def _side_by_side(initializer):
    """Return an initializer that draws each matrix of a stack separately."""
    initializer = keras.initializers.get(initializer)

    def draw(shape, dtype=None):
        blocks, rows, columns = shape
        matrix = initializer((rows, blocks * columns), dtype=dtype)
        return ops.transpose(ops.reshape(matrix, (rows, blocks, columns)), (1, 0, 2))

    return draw


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
