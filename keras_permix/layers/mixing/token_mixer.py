"""Define the base classes of mixers, which are called like `MultiHeadAttention`."""

from inspect import signature
from typing import Any

import numpy as np

from keras_permix._typing import Mask, Shape, Tensor
from keras_permix.layers.parts.masks import clean_padding
from keras_permix.layers.parts.wrappers import Composite, flatten_map, make_dropout, unflatten_map
from keras_permix.utils.checks import fits


class MixingLayer(Composite):
    """Mix the tokens of one tensor, with the call signature of `MultiHeadAttention`.

    Subclasses replace self-attention: `value` and `key` may be passed, but must be the query. A
    subclass whose `call` has an argument `attention_mask` or `use_causal_mask` supports it.
    """

    @property
    def is_causal(self) -> bool:
        """Return whether no output token depends on a later input token."""
        return getattr(self, "causal", False)

    def __call__(
        self,
        query: Tensor,
        value: Tensor = None,
        key: Tensor = None,
        attention_mask: Mask = None,
        use_causal_mask: bool = False,
        mask: Mask = None,
        **kwargs: Any,
    ) -> Tensor:
        # Keras converts arguments separately, so `call` cannot compare their identity.
        for name, given in (("value", value), ("key", key)):
            if given is not None and given is not query:
                rule = f"`{name}` must be the same object as `query`, or None. Pass masks by name."
                raise TypeError(f"{rule} Received: {name}.shape={shape_of(given)}")
        if mask is not None:
            self._check_mask(mask, query.shape)
            kwargs["mask"] = mask
        if attention_mask is not None:
            if "attention_mask" not in signature(self.call).parameters:
                rule = f"{type(self).__name__} has no `attention_mask`; pass padding as `mask`."
                raise TypeError(f"{rule} Received: attention_mask.shape={shape_of(attention_mask)}")
            self._check_attention_mask(attention_mask, query.shape)
            kwargs["attention_mask"] = attention_mask
        if use_causal_mask and not self.is_causal:
            if "use_causal_mask" not in signature(self.call).parameters:
                rule = f"`use_causal_mask` must be False: {type(self).__name__} is not causal."
                raise TypeError(f"{rule} Received: use_causal_mask=True")
            kwargs["use_causal_mask"] = True
        return super().__call__(query, **kwargs)

    # Checked before `call`, because Keras rewrites the errors that `call` raises.
    def _check_mask(self, mask, shape):
        found = shape_of(mask)
        batch, tokens, _ = self._tokens_shape(shape)
        if not (fits(found, (batch, tokens)) or fits(found, tuple(shape[:-1]))):
            rule = "`mask` must have the shape (batch, tokens) of the input, or that of its map."
            raise ValueError(f"{rule} Received: mask.shape={found}, inputs.shape={tuple(shape)}")

    def _check_attention_mask(self, mask, shape):
        found, (batch, tokens, _) = shape_of(mask), self._tokens_shape(shape)
        heads, pairs = getattr(self, "num_heads", None), (tokens, tokens)
        expected = {2: pairs, 3: (batch, *pairs), 4: (batch, heads, *pairs)}.get(len(found), ())
        sides = [b if a == 1 else a for a, b in zip(found, expected, strict=False)]
        if not expected or not fits(sides, expected):
            raise ValueError(
                "`attention_mask` must have the shape (tokens, tokens), (batch, tokens, tokens) or "
                "(batch, heads, tokens, tokens). Pass padding as `mask`. "
                f"Received: attention_mask.shape={found}, inputs.shape={tuple(shape)}, {heads=}"
            )


class TokenMixer(MixingLayer):
    """Project tokens to values, mix the values along the tokens, and project them back.

    A subclass implements `mix(values, mask)`, which keeps the shape `(batch, tokens, inner_dim)`.
    Maps `(batch, rows, columns, channels)` are mixed as tokens ordered by rows. `CSP` documents the
    arguments.
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
        self._store(locals())

    def build(self, input_shape: Shape) -> None:
        width = self._tokens_shape(input_shape)[-1]
        inner = self.inner_dim or width
        projects = self.use_value_projection and self.use_output_projection
        if not projects and inner != width:
            rule = f"`inner_dim` must be the input width {width} unless both projections are used."
            raise ValueError(f"{rule} Received: inner_dim={inner}")
        if self.use_value_projection:
            self.value_dense = self._dense(
                "value", inner, input_shape, use_bias=self.use_value_bias
            )
        if self.use_output_projection:
            mixed_shape = (*input_shape[:-1], inner)
            self.output_dense = self._dense(
                "output", width, mixed_shape, use_bias=self.use_output_bias
            )
            self.output_dropout = make_dropout(self.dropout, dtype=self.dtype_policy)

    def call(self, inputs: Tensor, mask: Mask = None) -> Tensor:
        tokens, mask = flatten_map(inputs, mask)
        tokens = tokens if mask is None else clean_padding(tokens, mask)
        values = self.value_dense(tokens) if self.use_value_projection else tokens
        mixed = self.mix(values, mask)
        if self.use_output_projection:
            mixed = self.output_dropout(self.output_dense(mixed))
        return unflatten_map(mixed, inputs)


def shape_of(mask):
    """Return the shape of a mask, which may be a list."""
    return tuple(mask.shape if hasattr(mask, "shape") else np.shape(mask))
