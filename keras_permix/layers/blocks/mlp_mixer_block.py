"""Mix tokens by one MLP and channels by another (MLP-Mixer)."""

from typing import Any

import keras
from keras import ops

from keras_permix.layers.butterfly.butterfly_mlp import ButterflyLinearMLP, ButterflyMLP
from keras_permix.layers.parts.wrappers import Composite
from keras_permix.ops.butterfly import two_stage_block


@keras.saving.register_keras_serializable("keras_permix")
class MLPMixerBlock(Composite):
    """Mix tokens by one MLP and channels by another, each with a residual and a normalization.

    Computes `x = x + transpose(mlp(transpose(norm(x))))`, then `x = x + mlp(norm(x))`. All channels
    share the first MLP, and all tokens the second.

    Input and output: `(batch, tokens, channels)`, with a known number of tokens. Masks are not
    supported.

    Args:
        mlp: Type of both MLPs. "dense" is `dense(gelu(dense(x)))`. "butterfly" is a
            `ButterflyMLP` whose block size is the square root of the size, or the next divisor.
            "butterfly_linear" is a `ButterflyLinearMLP`, for square sizes.
        expansion: Ratio of hidden units to tokens or channels.
        tokens_mlp_dim, channels_mlp_dim: Hidden units of the dense MLPs across tokens and across
            channels. Defaults to `expansion` times their size.
        epsilon: Epsilon of the layer normalizations.

    Raises:
        ValueError: for an argument out of range, a wrong shape, an unknown number of tokens, or a
            size that the MLP does not support.

    Example:
        >>> import numpy as np
        >>> from keras_permix.layers import MLPMixerBlock
        >>> tuple(MLPMixerBlock("butterfly")(np.ones((2, 64, 121), "float32")).shape)
        (2, 64, 121)

    Reference: Tolstikhin et al., "MLP-Mixer", 2021, arXiv:2105.01601. Sapkota & Bhattarai,
    "Dimension Mixer", 2023, arXiv:2311.18735, Table II.
    """

    def __init__(
        self,
        mlp: str = "dense",
        expansion: int = 2,
        tokens_mlp_dim: int | None = None,
        channels_mlp_dim: int | None = None,
        epsilon: float = 1e-5,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.supports_masking = False
        self._store(locals(), mlp=("dense", "butterfly", "butterfly_linear"))
        if mlp != "dense" and (tokens_mlp_dim or channels_mlp_dim):
            rule = "`tokens_mlp_dim` and `channels_mlp_dim` require mlp='dense'."
            raise ValueError(f"{rule} Received: {mlp=}, {tokens_mlp_dim=}, {channels_mlp_dim=}")

    def build(self, input_shape: tuple) -> None:
        batch, tokens, width = self._tokens_shape(input_shape, maps=False)
        if tokens is None:
            raise ValueError(f"The number of tokens must be known. Received: {input_shape=}")
        self.input_spec = keras.InputSpec(ndim=3, axes={1: tokens})
        self.token_norm = self._norm("token_norm", input_shape)
        self.channel_norm = self._norm("channel_norm", input_shape)
        self.token_mlp = self._make_mlp("token", (batch, width, tokens), self.tokens_mlp_dim)
        self.channel_mlp = self._make_mlp("channel", (batch, tokens, width), self.channels_mlp_dim)

    def _make_mlp(self, name, shape, units):
        """Return the built layers of an MLP along the last axis."""
        size = shape[-1]
        if self.mlp == "dense":
            hidden = units or size * self.expansion
            first = self._dense(f"{name}_in", hidden, shape, "gelu")
            return [first, self._dense(f"{name}_out", size, (*shape[:-1], hidden))]
        arguments = dict(expansion=self.expansion, dtype=self.dtype_policy, name=f"{name}_mlp")
        if self.mlp == "butterfly":
            layer = ButterflyMLP(two_stage_block(size), **arguments)
        else:
            layer = ButterflyLinearMLP(**arguments)
        layer.build(shape)
        return [layer]

    def call(self, inputs: Any) -> Any:
        mixed = ops.swapaxes(self.token_norm(inputs), 1, 2)
        for layer in self.token_mlp:
            mixed = layer(mixed)
        tokens = inputs + ops.swapaxes(mixed, 1, 2)
        mixed = self.channel_norm(tokens)
        for layer in self.channel_mlp:
            mixed = layer(mixed)
        return tokens + mixed
