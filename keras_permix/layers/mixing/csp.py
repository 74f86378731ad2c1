"""Shift and sort tokens channel by channel (CSP), also in a differentiable relaxation."""

from typing import Any

import keras
import numpy as np

from keras_permix import ops
from keras_permix._typing import Mask, Shape, Tensor
from keras_permix.layers.mixing.token_mixer import TokenMixer
from keras_permix.ops.shift_steps import SCHEDULES, Shift, check_steps
from keras_permix.utils.checks import ALIGNMENTS, check_choice, check_integer, check_positive


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
    except with a power schedule or "grid". "grid" does not support masks.

    Args:
        group_size: Tokens per group. 1 only shifts, `None` sorts all tokens. It must divide the
            number of tokens unless `ragged=True`.
        shift: Schedule of the steps ("linear", "linear_paper", "linear_code", "linear_head",
            "unit", "power", "power_code", "grid", "random", "zero") or one integer step per inner
            channel; see `keras_permix.ops.shift_steps`.
        align: "independent" sorts every channel. "reference" keeps the first channel unchanged
            and gives every other channel its ranks.
        inner_dim: Width of the values. `None`: the input width.
        use_value_bias: Whether the projection to values has a bias.
        use_output_projection: Whether to project back to the input width. If False, `inner_dim`
            must be the input width, and no dropout is applied.
        dropout: Rate of the dropout after the output projection, in `[0, 1)`.
        layer_index: Index of this layer, from 0, used by the power and random schedules.
        num_layers: Number of layers of the model, used by the power schedules.
        ragged: Whether the last group may be shorter.
        use_value_projection: Whether to project the input to values (keyword only).
        use_output_bias: Whether the output projection has a bias (keyword only).

    Raises:
        ValueError: for an argument out of range, or tokens that `group_size` does not divide if
            `ragged=False`.

    Example:
        >>> import numpy as np
        >>> from keras_permix.layers import CSP
        >>> tuple(CSP()(np.ones((2, 64, 32), "float32")).shape)
        (2, 64, 32)

    Reference: Yuan & Xu, "Channel-wise Sample Permutation", 2024, arXiv:2410.10914, equation (4).
    """

    def __init__(
        self,
        group_size: int | None = 2,
        shift: Shift = "linear",
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
        if isinstance(shift, str):
            check_choice("shift", shift, SCHEDULES)
        elif np.ndim(shift) != 1:
            raise ValueError(f"`shift` must be a name, or a step per channel. Received: {shift=}")
        else:
            shift = np.asarray(shift).tolist()
        self._store(locals(), align=ALIGNMENTS)

    def build(self, input_shape: Shape) -> None:
        super().build(input_shape)
        _, tokens, width = self._tokens_shape(input_shape)
        channels: Any = self.inner_dim or width
        if tokens and self.group_size and tokens % self.group_size and not self.ragged:
            rule = "`group_size` must divide the number of tokens, unless `ragged=True`."
            more = f"{tokens=} (including a class token, if any)"
            raise ValueError(f"{rule} Received: group_size={self.group_size}, {more}")
        shift = self.shift
        if isinstance(shift, str):
            shift = ops.ShiftSchedule(shift, channels, **self._facts())
            if tokens is not None:
                shift.at(tokens)  # Computing it later would make PyTorch's compiler recompile.
        self._steps = check_steps(shift, channels, "shift")

    def mix(self, values: Tensor, mask: Mask = None) -> Tensor:
        return ops.csp(
            values, self._steps, self.group_size, align=self.align, ragged=self.ragged, mask=mask
        )

    def steps(self, tokens: int, channels: int) -> np.ndarray:
        """Return the step of every inner channel as an array."""
        channels = self.inner_dim or channels
        return ops.shift_steps(self.shift, tokens, channels, **self._facts())

    def _facts(self):
        """Return the other arguments of schedules."""
        at = dict(layer_index=self.layer_index, num_layers=self.num_layers)
        return {**at, "group_size": self.group_size or 1}


@keras.saving.register_keras_serializable("keras_permix")
class SinkhornCSP(CSP):
    """Mix tokens by a differentiable relaxation of `CSP(align="reference")`.

    In every group of tokens, each channel is aligned to the reference channel by Sinkhorn
    iterations at a temperature. As the temperature falls, the layer approaches
    `CSP(align="reference")` with the same weights. The temperature of a built layer is a weight
    that is not trained. Anneal it with `layer.temperature.assign(…)` in a callback at the start of
    an epoch.

    Inputs, outputs and masks are those of `CSP`. Memory grows with `iterations` × tokens ×
    `group_size` × inner channels.

    Args:
        temperature: Initial temperature, above 0, in units of a product of two values.
        iterations: Number of normalizations of rows and columns.
        group_size, shift, layer_index, num_layers, ragged: See `CSP`.
        inner_dim, use_value_bias, use_output_projection, dropout: See `CSP`.

    Raises:
        ValueError: for an argument out of range, or tokens that `group_size` does not divide if
            `ragged=False`.

    Example:
        >>> import numpy as np
        >>> from keras_permix.layers import SinkhornCSP
        >>> layer = SinkhornCSP(temperature=1.0, iterations=5, group_size=8)
        >>> tuple(layer(np.ones((2, 64, 32), "float32")).shape)
        (2, 64, 32)
        >>> layer.temperature.assign(0.1)  # doctest: +SKIP

    Reference: Yuan & Xu, "Channel-wise Sample Permutation", 2024, arXiv:2410.10914, equation (9)
    and Theorem 2. The soft form extends the paper.
    """

    def __init__(self, temperature: float = 1.0, iterations: int = 20, **kwargs: Any) -> None:
        super().__init__(align="reference", **kwargs)
        self.iterations = check_integer("iterations", iterations)
        self.temperature: Any = check_positive("temperature", temperature)

    def build(self, input_shape: Shape) -> None:
        super().build(input_shape)
        self.temperature = self.add_weight(
            shape=(),
            initializer=keras.initializers.Constant(self.temperature),
            trainable=False,
            autocast=False,
            name="temperature",
        )

    def mix(self, values: Tensor, mask: Mask = None) -> Tensor:
        return ops.sinkhorn_csp(
            values,
            self._steps,
            self.group_size,
            iterations=self.iterations,
            temperature=keras.ops.convert_to_tensor(self.temperature),
            ragged=self.ragged,
            mask=mask,
        )

    def get_config(self) -> dict[str, Any]:
        config = super().get_config()
        del config["align"]
        temperature = float(keras.ops.convert_to_numpy(self.temperature))
        return {**config, "temperature": temperature, "iterations": self.iterations}
