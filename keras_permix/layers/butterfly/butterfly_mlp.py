"""Mix all channels with few parameters, by butterflies of block-diagonal layers."""

import math
from typing import Any

import keras

from keras_permix._typing import Shape, Tensor
from keras_permix.layers.butterfly.block_dense import BlockDense, as_columns, as_rows
from keras_permix.layers.parts.wrappers import Composite
from keras_permix.ops import butterfly_permute, butterfly_stages, butterfly_unpermute
from keras_permix.ops.butterfly import exchange
from keras_permix.utils.checks import check_integer


class Butterfly(Composite):
    """Mix blocks of channels in stages, each between two permutations.

    A subclass makes its layers in `build` and implements `mix(columns, stage)`, which mixes runs of
    `block_size` channels on the first axis.
    """

    def __init__(self, block_size: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.block_size = check_integer("block_size", block_size, least=2)

    def build(self, input_shape: Shape) -> None:
        size: Any = input_shape[-1]
        self.stages = butterfly_stages(size, self.block_size)
        self.blocks = size // self.block_size

    def _dense_per_stage(self, name, channels, units, **arguments):
        """Make a `BlockDense` per stage that maps `channels` to `units` in each block."""
        layers = []
        for stage in range(self.stages):
            arguments |= dict(axis=0, dtype=self.dtype_policy, name=f"{name}_{stage}")
            layers.append(BlockDense(self.blocks, units, **arguments))
            layers[-1].build((self.blocks * channels, None))
        return layers

    def call(self, inputs: Tensor) -> Tensor:
        columns, shape = as_columns(inputs)
        for stage in range(self.stages):
            columns = butterfly_permute(columns, self.block_size, stage, axis=0)
            columns = self.mix(columns, stage)
            columns = butterfly_unpermute(columns, self.block_size, stage, axis=0)
        return as_rows(columns, shape)


@keras.saving.register_keras_serializable("keras_permix")
class ButterflyLinear(Butterfly):
    """Apply a linear map to all channels, as a product of sparse maps.

    Stage `i` multiplies every block of `block_size` channels, `min(block_size**i, channels /
    block_size)` apart, by a separate kernel, without bias. The number of stages is
    `log(channels) / log(block_size)`, rounded up, enough to mix all channels. Every kernel is
    initialized to the identity.

    Input and output: `(..., channels)`.

    Args:
        block_size: Channels per block, at least 2. It must divide the number of channels.

    Raises:
        ValueError: for blocks that do not fill the channels in every stage.

    Example:
        >>> import numpy as np
        >>> from keras_permix.layers import ButterflyLinear
        >>> layer = ButterflyLinear(block_size=8)
        >>> tuple(layer(np.ones((2, 64), "float32")).shape), layer.count_params()
        ((2, 64), 1024)

    Reference: Sapkota & Bhattarai, "Dimension Mixer", 2023, arXiv:2311.18735.
    """

    def build(self, input_shape: Shape) -> None:
        super().build(input_shape)
        linear = dict(use_bias=False, kernel_initializer=identity_blocks)
        self.dense = self._dense_per_stage("dense", self.block_size, self.block_size, **linear)

    def mix(self, columns: Tensor, stage: int) -> Tensor:
        return self.dense[stage](columns)


@keras.saving.register_keras_serializable("keras_permix")
class ButterflyMLP(Butterfly):
    """Mix all channels by small MLPs, one for every block of every stage.

    An MLP is `activation(block @ k1 + b1) @ k2 + b2` with `block_size * expansion` hidden units.
    The stages are those of `ButterflyLinear`, in series, without residuals or normalization.

    Input and output: `(..., channels)`.

    Args:
        block_size: Channels per block, at least 2. It must divide the number of channels.
        expansion: Ratio of hidden units to channels.
        activation: See `BlockDense`.

    Raises:
        ValueError: for an argument out of range, or blocks that do not fill the channels in every
            stage.

    Example:
        >>> import numpy as np
        >>> from keras_permix.layers import ButterflyMLP
        >>> layer = ButterflyMLP(block_size=8, expansion=2)
        >>> tuple(layer(np.ones((2, 64), "float32")).shape), layer.count_params()
        ((2, 64), 4480)

    Reference: Sapkota & Bhattarai, "Dimension Mixer", 2023, arXiv:2311.18735.
    """

    def __init__(
        self, block_size: int, expansion: int = 2, activation: Any = "gelu", **kwargs: Any
    ) -> None:
        super().__init__(block_size, **kwargs)
        self.expansion = check_integer("expansion", expansion)
        self.activation = keras.activations.get(activation)

    def build(self, input_shape: Shape) -> None:
        super().build(input_shape)
        outer, hidden = self.block_size, self.block_size * self.expansion
        self.mlp_in = self._dense_per_stage("mlp_in", outer, hidden, activation=self.activation)
        self.mlp_out = self._dense_per_stage("mlp_out", hidden, outer)

    def mix(self, columns: Tensor, stage: int) -> Tensor:
        return self.mlp_out[stage](self.mlp_in[stage](columns))


@keras.saving.register_keras_serializable("keras_permix")
def identity_blocks(shape, dtype=None):
    """Initialize every block to the identity."""
    return keras.ops.tile(keras.ops.eye(shape[-1], dtype=dtype), (shape[0], 1, 1))


@keras.saving.register_keras_serializable("keras_permix")
class ButterflyLinearMLP(Composite):
    """Apply an MLP of two linear maps, each a product of two block-diagonal maps.

    With `channels = b * b` and `h = b * expansion`: `b` blocks `(b, h)` → transpose → `h` blocks
    `(b, b)`, bias → activation → `h` blocks `(b, b)` → transpose → `b` blocks `(h, b)`, bias.
    Transposing swaps blocks and their entries, so that each map mixes all channels.

    Input and output: `(..., channels)`.

    Args:
        expansion: Ratio of hidden units to channels.
        activation: See `BlockDense`.

    Raises:
        ValueError: for an argument out of range, or a number of channels that is not a square.

    Example:
        >>> import numpy as np
        >>> from keras_permix.layers import ButterflyLinearMLP
        >>> layer = ButterflyLinearMLP()
        >>> tuple(layer(np.ones((2, 64), "float32")).shape), layer.count_params()
        ((2, 64), 2176)

    Reference: Sapkota & Bhattarai, "Dimension Mixer", 2023, arXiv:2311.18735, Table II.
    """

    def __init__(self, expansion: int = 1, activation: Any = "elu", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.expansion = check_integer("expansion", expansion)
        self.activation = keras.activations.get(activation)

    def build(self, input_shape: Shape) -> None:
        channels = input_shape[-1] or 0
        side = math.isqrt(channels)
        if side < 2 or side**2 != channels:
            rule = "The number of channels must be a square, at least 4."
            raise ValueError(f"{rule} Received: {channels=}")
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
            # Transpose the matrix whose rows are the blocks.
            columns = exchange(columns, spread.blocks, columns.shape[0] // spread.blocks, axis=0)
            columns = gather(columns)
        return as_rows(columns, shape)
