"""Permute tokens channel by channel without using later tokens."""

from collections.abc import Sequence
from typing import Any

import keras
import numpy as np

from keras_permix import ops
from keras_permix._typing import Mask, Shape, Tensor
from keras_permix.layers.mixing.token_mixer import TokenMixer
from keras_permix.layers.parts.masks import clean_padding
from keras_permix.layers.streaming import Streaming
from keras_permix.ops.reference.packing import pack, unpack
from keras_permix.ops.shift_steps import check_steps
from keras_permix.utils.checks import check_integer


@keras.saving.register_keras_serializable("keras_permix")
class CausalCSP(Streaming, TokenMixer):
    """Delay each channel along the tokens, then sort it within groups of tokens.

    A channel with delay `d` holds at token `t` the value of token `t - d`, and zero at the first
    `d` tokens. Groups of `k` tokens are then sorted; delays of at least `k - 1` keep the result
    causal.

        delayed[b, t, c] = values[b, t - delays[c], c] where t >= delays[c], else 0
        mixed = group_sort(delayed, k)

    Token `t` depends on tokens `0 … t` only, and not on the number of later tokens. The cost is
    that of `CSP` for a sequence that is longer by the longest delay.

    Inputs, outputs and masks are those of `CSP`. The number of tokens may be unknown.

    The layer supports streaming (`initial_state`, `step`, `chunk`). Its state holds the values
    of the last `longest delay + group_size - 1` tokens.

    Args:
        group_size: Tokens per group, `k`. 1 only delays.
        delays: One integer per inner channel, at least `group_size - 1`; or one integer, the
            longest delay, for evenly spaced delays from `group_size - 1` to this value.
        inner_dim, use_value_bias, use_output_projection, dropout: See `CSP`.
        use_value_projection, use_output_bias: See `CSP` (keyword only).

    Raises:
        ValueError: for an argument out of range, or a delay below `group_size - 1`.

    Example:
        >>> import keras
        >>> from keras_permix.layers import CausalCSP
        >>> layer = CausalCSP(delays=8)
        >>> text = keras.random.normal((1, 64, 32))
        >>> whole, beginning = layer(text), layer(text[:, :20])
        >>> bool(keras.ops.max(keras.ops.abs(whole[:, :20] - beginning)) < 1e-5)
        True

    Reference: Yuan & Xu, "Channel-wise Sample Permutation", 2024, arXiv:2410.10914. The causal form
    extends the paper.
    """

    causal = True  # read by `is_causal`

    def __init__(
        self,
        group_size: int = 2,
        delays: int | Sequence[int] | np.ndarray = 64,
        inner_dim: int | None = None,
        use_value_bias: bool = False,
        use_output_projection: bool = True,
        dropout: float = 0.0,
        **kwargs: Any,
    ) -> None:
        super().__init__(inner_dim, use_value_bias, use_output_projection, dropout, **kwargs)
        ahead = check_integer("group_size", group_size) - 1
        if np.ndim(delays):
            delays = [check_integer("delays", each, ahead) for each in np.asarray(delays).tolist()]
        else:
            delays = check_integer("delays", delays, ahead)
        self._store(locals())

    def build(self, input_shape: Shape) -> None:
        super().build(input_shape)
        channels: Any = self.inner_dim or input_shape[-1]
        self._steps: Any = check_steps(self.steps(channels), channels, "delays")

    def steps(self, channels: int) -> tuple[int, ...]:
        """Return the delay of each of `channels` inner channels."""
        if isinstance(self.delays, int):
            spread = np.linspace(self.group_size - 1, self.delays, channels)
            return tuple(spread.round().astype(int).tolist())
        return tuple(self.delays)

    def mix(self, values: Tensor, mask: Mask = None) -> Tensor:
        # The appended zeros wrap around to the front, and fill the last group.
        behind = max(self._steps) + self.group_size - 1
        tokens = keras.ops.shape(values)[1]
        values = keras.ops.pad(values, ((0, 0), (0, behind), (0, 0)))
        if mask is not None:
            mask = keras.ops.pad(mask, ((0, 0), (0, behind)), constant_values=True)
        mixed = ops.csp(values, self._steps, self.group_size, ragged=True, mask=mask)
        return mixed[:, :tokens]

    def make_state(self, batch_size: int) -> dict[str, Tensor]:
        history = max(self._steps) + self.group_size - 1
        shape = (batch_size, history, len(self._steps))
        return {
            "values": keras.ops.zeros(shape, self.compute_dtype),
            "position": keras.ops.zeros((batch_size,), "int32"),  # within its group
        }

    def read(self, tokens: Tensor, state: Any, mask: Mask) -> tuple[Tensor, Any]:
        tokens = clean_padding(tokens, mask)
        values = self.value_dense(tokens) if self.use_value_projection else tokens
        mixed, state = self._mix_chunk(values, state, mask)
        if not self.use_output_projection:
            return mixed, state
        return self.output_dropout(self.output_dense(mixed)), state

    def _mix_chunk(self, values, state, mask):
        """Gather and sort the groups that the tokens are in; delays keep later values out."""
        packed, size, history = pack(values, mask), self.group_size, state["values"].shape[1]
        window = keras.ops.concatenate([state["values"], packed.values], axis=1)
        batch, tokens, channels = keras.ops.shape(values)
        start = state["position"][:, None, None]
        covered = (tokens + 2 * size - 2) // size * size
        members = keras.ops.arange(covered, dtype="int32")[:, None] - start
        sources = history + members - keras.ops.convert_to_tensor(self._steps, "int32")
        sources = keras.ops.minimum(sources, history + tokens - 1)  # of members beyond the tokens
        groups = ops.group_sort(keras.ops.take_along_axis(window, sources, axis=1), size)
        own = start + keras.ops.arange(tokens, dtype="int32")[:, None]
        own = keras.ops.broadcast_to(own, (batch, tokens, channels))
        mixed = keras.ops.take_along_axis(groups, own, axis=1)
        if mask is None:
            left, count = window[:, tokens:], tokens
        else:
            count = packed.lengths[:, 0, 0]
            last = count[:, None] + keras.ops.arange(history, dtype="int32")
            last = keras.ops.broadcast_to(last[..., None], (batch, history, channels))
            left = keras.ops.take_along_axis(window, last, axis=1)
        position = (state["position"] + count) % size
        return unpack(mixed, packed, mask), {"values": left, "position": position}
