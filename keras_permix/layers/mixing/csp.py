"""Shift and sort tokens channel by channel (CSP)."""

from collections.abc import Sequence
from typing import Any

import keras
import numpy as np

from keras_permix import ops
from keras_permix._typing import Mask, Shape, Tensor
from keras_permix.layers.mixing.token_mixer import TokenMixer
from keras_permix.ops.dispatch.checks import require
from keras_permix.ops.shift_steps import SCHEDULES, Shift, check_steps
from keras_permix.utils.checks import check_align, check_choice, check_integer, check_layer_index


@keras.saving.register_keras_serializable("keras_permix")
class CSP(TokenMixer):
    """Shift each channel along the tokens, then sort it within groups of tokens.

    Computes `values = inputs @ Wv`, shifts every channel cyclically by a fixed step, sorts it
    ascending within contiguous groups, and returns `mixed @ Wo + bo`. The permutation has no
    parameters and costs O(tokens) for groups of two. CSP is bidirectional. For causal mixing, use
    `CausalCSP`.

    Input and output: `(batch, tokens, channels)`, or maps `(batch, rows, columns, channels)`, whose
    tokens are ordered by rows. A mask `(batch, tokens)`, or of the shape of a map, is True at real
    tokens. Only these are permuted, as if the padding were absent, and padded values become zero
    before the output projection. The number of tokens may be unknown while TensorFlow traces,
    except with a power schedule.

    Args:
        group_size: Tokens per group. 1 only shifts, `None` sorts all tokens. It must divide the
            number of tokens unless `ragged=True`.
        shift: Schedule of the steps ("linear", "linear_paper", "linear_code", "linear_head",
            "unit", "power", "power_code", "grid", "random", "zero") or one integer step per inner
            channel; see `keras_permix.ops.shift_steps`. For maps, also one move per inner channel:
            a pair (rows, columns) that moves tokens down and to the right. On a map of `width`
            columns, a move is a step of `rows * width + columns`, so tokens that leave a row
            continue in the next. Build the layer on maps of this width; then call it on maps or on
            their tokens.
        align: "independent" sorts every channel. "reference" keeps the first channel unchanged
            and gives every other channel its ranks.
        inner_dim: Width of the values. `None`: the input width.
        use_value_bias: Whether the projection to values has a bias.
        use_output_projection: Whether to project back to the input width. If False, `inner_dim`
            must be the input width, and no dropout is applied.
        dropout: Rate of the dropout after the output projection, in `[0, 1)`.
        layer_index: Index of this layer, from 0, used by the power schedules.
        num_layers: Number of layers of the model, used by the power schedules.
        ragged: Whether the last group may be shorter.
        use_value_projection: Whether to project the input to values (keyword only).
        use_output_bias: Whether the output projection has a bias (keyword only).

    Raises:
        ValueError: for an argument out of range, tokens that `group_size` does not divide if
            `ragged=False`, or moves on maps with another number of columns.

    Example:

    >>> import numpy as np
    >>> from keras_permix.layers import CSP
    >>> tuple(CSP()(np.ones((2, 64, 32), "float32")).shape)
    (2, 64, 32)

    Reference:
        Yuan and Xu, "Towards Better Multi-head Attention via Channel-wise Sample Permutation",
        2024, arXiv:2410.10914, equation (4).
    """

    def __init__(
        self,
        group_size: int | None = 2,
        shift: Shift | Sequence[Sequence[int]] = "linear",
        align: str = "independent",
        inner_dim: int | None = None,
        use_value_bias: bool = False,
        use_output_projection: bool = True,
        dropout: float = 0.0,
        layer_index: int = 0,
        num_layers: int = 1,
        ragged: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(inner_dim, use_value_bias, use_output_projection, dropout, **kwargs)
        self.group_size = None if group_size is None else check_integer("group_size", group_size)
        self.align = check_align(align)
        self.layer_index, self.num_layers = check_layer_index(layer_index, num_layers)
        if isinstance(shift, str):
            self.shift = check_choice("shift", shift, SCHEDULES)
        elif _as_array(shift).ndim == 0:
            raise ValueError(
                f"`shift` must be one of {tuple(SCHEDULES)}, or hold one step per inner channel. "
                "CSP has no `num_heads` and `key_dim`. "
                f"Received: group_size={group_size!r}, shift={shift!r}"
            )
        else:
            self.shift = _as_array(shift).tolist()
        self.ragged = ragged
        self._columns: int | None = None  # of the maps that the layer is built for

    def build(self, input_shape: Shape) -> None:
        super().build(input_shape)
        _, tokens, width = self._tokens_shape(input_shape)
        channels: Any = self.inner_dim or width
        if tokens and self.group_size and tokens % self.group_size and not self.ragged:
            raise ValueError(
                "`group_size` must divide the number of tokens, including a class token. Set "
                "`ragged=True` (for models, `mixer={'name': 'csp', 'ragged': True}`) to allow a "
                "shorter last group, or choose another `group_size`, size or pooling. "
                f"Received: group_size={self.group_size}, input_shape={tuple(input_shape)}"
            )
        if np.ndim(self.shift) > 1 and len(input_shape) == 4:
            self._columns = input_shape[2]
        shift = self._shift_along_tokens()
        if isinstance(shift, str):
            shift = ops.ShiftSchedule(shift, channels, **self._facts())
            if tokens is not None:
                shift.at(tokens)  # Computing it later would make PyTorch's compiler recompile.
        self._steps = check_steps(shift, channels, "shift")

    def _shift_along_tokens(self):
        """Return the shift, with moves on maps converted to steps along their tokens."""
        if np.ndim(self.shift) < 2:
            return self.shift
        if self._columns is None or np.shape(self.shift)[1:] != (2,):
            raise ValueError(
                "`shift` must contain one pair (rows, columns) per inner channel, and the layer "
                "must be built for maps (batch, rows, columns, channels) with known columns. "
                f"Received: shift of the shape {np.shape(self.shift)}, columns={self._columns}"
            )
        return [down * self._columns + right for down, right in self.shift]

    def call(self, inputs: Tensor, mask: Mask = None) -> Tensor:
        if self._columns is not None and len(inputs.shape) == 4:
            columns = keras.ops.shape(inputs)[2]
            rule = (
                f"With pairs as `shift`, maps must have the {self._columns} columns that the layer "
                "was built for. Received: columns="
            )
            inputs = require(inputs, columns == self._columns, rule, columns)
        return super().call(inputs, mask)

    def mix(self, values: Tensor, mask: Mask = None) -> Tensor:
        return ops.csp(
            values, self._steps, self.group_size, align=self.align, ragged=self.ragged, mask=mask
        )

    def steps(self, tokens: int, channels: int) -> np.ndarray:
        """Return the step of every inner channel as an array; moves are converted to steps."""
        channels = self.inner_dim or channels
        return ops.shift_steps(self._shift_along_tokens(), tokens, channels, **self._facts())

    def _facts(self):
        """Return the other arguments of schedules."""
        return dict(
            layer_index=self.layer_index,
            num_layers=self.num_layers,
            group_size=self.group_size or 1,
        )


def _as_array(shift):
    """Return steps or moves as an array."""
    try:
        return np.asarray(shift)
    except ValueError:
        raise ValueError(
            "`shift` must contain one step, or one pair (rows, columns), per inner channel. "
            f"Received: shift={shift!r}"
        ) from None
