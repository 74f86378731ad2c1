"""Define mixers between a value projection and an output projection."""

from typing import Any

from keras_permix._typing import Mask, Shape, Tensor
from keras_permix.layers.parts.masks import flatten_map, tokens_shape, unflatten_map
from keras_permix.layers.parts.projections import Dense, make_dropout
from keras_permix.layers.parts.wrappers import MixingLayer
from keras_permix.utils.checks import check_positive_or_none, check_rate


class TokenMixer(MixingLayer):
    """Project tokens to values, mix the values along the tokens, and project them back.

    A subclass implements `mix(values, mask)`, which keeps the shape `(batch, tokens, inner_dim)`.
    Maps `(batch, rows, columns, channels)` are mixed as tokens ordered by rows.

    Args:
        inner_dim: Width of the values. `None`: the width of the input.
        use_value_bias: Whether the value projection has a bias.
        use_output_projection: Whether to project back to the input width. Without it `inner_dim`
            must be the input width and no dropout is applied.
        dropout: Rate of the dropout after the output projection, in `[0, 1)`.
        use_value_projection: Whether to project the input to values. Without it `inner_dim` must
            be the input width.
        use_output_bias: Whether the output projection has a bias.
    """

    def __init__(
        self,
        inner_dim: int | None = None,
        use_value_bias: bool = False,
        use_output_projection: bool = True,
        dropout: float = 0.0,
        use_value_projection: bool = True,
        use_output_bias: bool = True,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.supports_masking = True
        self.inner_dim = check_positive_or_none("inner_dim", inner_dim)
        self.use_value_bias = use_value_bias
        self.use_output_projection = use_output_projection
        self.dropout = check_rate("dropout", dropout)
        self.use_value_projection = use_value_projection
        self.use_output_bias = use_output_bias

    def build(self, input_shape: Shape) -> None:
        width = tokens_shape(type(self).__name__, input_shape)[-1]
        inner = self.inner_dim or width
        projects = self.use_value_projection and self.use_output_projection
        if not projects and inner != width:
            missing = "an output" if self.use_value_projection else "a value"
            raise ValueError(
                f"Without {missing} projection `inner_dim` must equal the width of the input. "
                f"Received: inner_dim={inner}, input_shape={tuple(input_shape)}"
            )
        if self.use_value_projection:
            self.value_dense = Dense(
                inner, use_bias=self.use_value_bias, dtype=self.dtype_policy, name="value"
            )
            self.value_dense.build(input_shape)
        if self.use_output_projection:
            self.output_dense = Dense(
                width, use_bias=self.use_output_bias, dtype=self.dtype_policy, name="output"
            )
            self.output_dense.build((*input_shape[:-1], inner))
            self.output_dropout = make_dropout(self.dropout, dtype=self.dtype_policy)

    def mix(self, values: Tensor, mask: Mask = None) -> Tensor:
        """Mix `values` along their tokens; `mask` is True at real tokens."""
        raise NotImplementedError(f"{type(self).__name__} does not implement `mix`.")

    def call(self, inputs: Tensor, mask: Mask = None) -> Tensor:
        values = self.value_dense(inputs) if self.use_value_projection else inputs
        mixed = unflatten_map(self.mix(*flatten_map(values, mask)), inputs)
        if not self.use_output_projection:
            return mixed
        return self.output_dropout(self.output_dense(mixed))
