"""Mix tokens by damped moving averages."""

from functools import partial
from typing import Any

import keras

from keras_permix import ops
from keras_permix._typing import Mask, Shape, Tensor
from keras_permix.layers.mixing.token_mixer import MixingLayer
from keras_permix.layers.parts.masks import clean_padding
from keras_permix.layers.parts.wrappers import flatten_map, make_dropout, unflatten_map
from keras_permix.layers.streaming import Streaming
from keras_permix.ops.damped_ema import damped_ema_stream
from keras_permix.ops.reference.linear import full_precision


@keras.saving.register_keras_serializable("keras_permix")
class DampedEMA(Streaming, MixingLayer):
    """Mix tokens by moving averages of each channel, with `ema_dim` learned decays.

    Computes `outputs = silu(average + omega * inputs)`; see `keras_permix.ops.damped_ema`. Time and
    memory are linear in the tokens.

    Input and output: `(batch, tokens, channels)`, or maps `(batch, rows, columns, channels)`, whose
    tokens are ordered by rows. A mask `(batch, tokens)`, or of the shape of a map, is True at real
    tokens. Padding counts as zeros in the average. Without `bidirectional` and `truncation`, the
    layer supports streaming (`initial_state`, `step`, `chunk`) with a state of `ema_dim` numbers
    per channel.

    Args:
        ema_dim: Number of decays per channel.
        bidirectional: Whether to average over later tokens as well.
        truncation: Number of tokens to average over in each direction, including the token itself.
            `None`: all tokens.
        dropout: Rate of the dropout of the outputs, in `[0, 1)`.

    Example:
        >>> import numpy as np
        >>> from keras_permix.layers import DampedEMA
        >>> tuple(DampedEMA()(np.ones((2, 64, 32), "float32")).shape)
        (2, 64, 32)

    Reference: Ma et al., "Mega", 2022, arXiv:2209.10655, section 3.1, and the released code.
    """

    def __init__(
        self,
        ema_dim: int = 16,
        bidirectional: bool = False,
        truncation: int | None = None,
        dropout: float = 0.0,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self._store(locals())
        self.causal = not bidirectional

    def build(self, input_shape: Shape) -> None:
        width = self._tokens_shape(input_shape)[-1]
        rows = (2 * width if self.bidirectional else width, self.ema_dim)
        normal = keras.initializers.RandomNormal
        # Never cast to a low precision, which would round slow decays to 1.
        self.delta = self.add_weight(rows, normal(0, 0.2), name="delta", autocast=False)
        self.alpha = self.add_weight(rows, normal(0, 0.2), name="alpha", autocast=False)
        alternating = partial(_alternating, normal(0, 0.02))
        self.beta = self.add_weight(rows, alternating, name="beta", autocast=False)
        self.gamma = self.add_weight(rows, normal(0, 1), name="gamma", autocast=False)
        self.omega = self.add_weight((width,), normal(0, 1), name="omega", autocast=False)
        self.output_dropout = make_dropout(self.dropout, dtype=self.dtype_policy)

    @property
    def op_weights(self) -> tuple[Tensor, ...]:
        """Return the weights in the order of the arguments of the op."""
        return self.delta, self.alpha, self.beta, self.gamma, self.omega

    def call(self, inputs: Tensor, mask: Mask = None) -> Tensor:
        tokens, mask = flatten_map(inputs, mask)
        tokens = clean_padding(tokens, mask)
        averaged = ops.damped_ema(tokens, *self.op_weights, truncation=self.truncation, mask=mask)
        return unflatten_map(self.output_dropout(keras.ops.silu(averaged)), inputs)

    def make_state(self, batch_size: int) -> Tensor:
        if self.bidirectional or self.truncation is not None:
            rule = "`initial_state` requires bidirectional=False and truncation=None"
            found = f"bidirectional={self.bidirectional}, truncation={self.truncation}"
            raise ValueError(f"{rule}. Received: {found}")
        shape = (batch_size, self.omega.shape[0], self.ema_dim)
        return keras.ops.zeros(shape, full_precision(self.compute_dtype))

    def read(self, tokens: Tensor, state: Tensor, mask: Mask) -> tuple[Tensor, Tensor]:
        tokens = clean_padding(tokens, mask)
        averaged, state = damped_ema_stream(tokens, state, mask, *self.op_weights)
        return self.output_dropout(keras.ops.silu(averaged)), state


def _alternating(noise, shape, dtype=None):
    """Return +1, -1, +1 … along the last axis, with the noise of an initializer."""
    signs = 1 - 2 * (keras.ops.arange(shape[-1]) % 2)
    return noise(shape, dtype) + keras.ops.cast(signs, dtype)
