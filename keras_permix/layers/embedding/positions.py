"""Add learned positions and a class token."""

import math
from typing import Any

import keras
from keras import ops

from keras_permix._typing import Mask, Shape, Tensor
from keras_permix.layers.embedding.grids import copy, nearest_on_grid
from keras_permix.layers.parts.masks import with_first
from keras_permix.layers.parts.wrappers import Composite
from keras_permix.ops.dispatch.checks import require

RESIZINGS = ("bicubic", "nearest")


@keras.saving.register_keras_serializable("keras_permix")
class PositionEmbedding(Composite):
    """Add a learned position to every token, and optionally prepend a class token.

    Input: `(batch, tokens, channels)`. The number of tokens must be known unless `max_tokens` is
    given. Output: the same shape, or one token more. The mask is passed on, True for a class token.

    Args:
        use_class_token: Whether to prepend a learned class token.
        keep_unused: Whether to create the class token and its position even if they are not used,
            so that parameter counts match those of the papers.
        max_tokens: Largest number of tokens. `None`: the number at build time.

    Raises:
        ValueError: for a wrong shape, an unknown number of tokens, or more tokens than positions.

    Example:
        >>> import numpy as np
        >>> from keras_permix.layers import PositionEmbedding
        >>> tuple(PositionEmbedding(use_class_token=True)(np.ones((2, 64, 32), "float32")).shape)
        (2, 65, 32)

    Reference: Dosovitskiy et al., "An Image is Worth 16x16 Words", 2021, arXiv:2010.11929; unused
    parameters as in the released code of CSP.
    """

    def __init__(
        self,
        use_class_token: bool = False,
        keep_unused: bool = False,
        max_tokens: int | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self._store(locals())

    def build(self, input_shape: Shape) -> None:
        _, given, width = self._tokens_shape(input_shape, maps=False)
        tokens = given if self.max_tokens is None else self.max_tokens
        if tokens is None:
            rule = "`max_tokens` must be set if the number of tokens is unknown."
            raise ValueError(f"{rule} Received: max_tokens=None")
        has_class_token = self.use_class_token or self.keep_unused
        initializer = keras.initializers.TruncatedNormal(stddev=0.02)
        self.table = self.add_weight(
            shape=(1, tokens + has_class_token, width), initializer=initializer, name="table"
        )
        if has_class_token:
            self.class_token = self.add_weight(
                shape=(1, 1, width),
                initializer=initializer.clone(),
                trainable=self.use_class_token,
                name="class_token",
            )

    def call(self, tokens: Tensor) -> Tensor:
        positions = self.table.shape[1] - (self.use_class_token or self.keep_unused)
        number = ops.shape(tokens)[1]
        rule = "PositionEmbedding requires a position for every token. "
        rule += f"Received: positions={positions}, tokens="
        tokens = require(tokens, number <= positions, rule, number)
        if self.use_class_token:
            tokens = prepend(self.class_token, tokens)
        return tokens + ops.cast(self.table[:, : ops.shape(tokens)[1]], tokens.dtype)

    def compute_mask(self, tokens: Tensor, previous_mask: Mask = None) -> Mask:
        if previous_mask is None or not self.use_class_token:
            return previous_mask
        return with_first(previous_mask)

    def compute_output_shape(self, input_shape: Shape) -> Shape:
        batch, tokens, width = input_shape
        return (batch, None if tokens is None else tokens + self.use_class_token, width)


def prepend(class_token, tokens):
    """Prepend a class token `(1, 1, channels)` to the tokens of each sample."""
    shape = (ops.shape(tokens)[0], 1, tokens.shape[-1])
    first = ops.broadcast_to(ops.cast(class_token, tokens.dtype), shape)
    return ops.concatenate([first, tokens], axis=1)


def resize_table(table, before, after, resizing="bicubic"):
    """Resize the square grid in a table `(1, rows, width)` of one `PositionEmbedding` for another.

    The row of a class token is kept, whether before the grid or unused after it. Returns `None` if
    the layers differ in rows for class tokens.
    """
    if _extra_rows(before) != _extra_rows(after):
        return None
    first, last = _extra_rows(before)
    old, new = (math.isqrt(layer.table.shape[1] - first - last) for layer in (before, after))
    if old == new:
        return ops.convert_to_tensor(table)
    table = ops.cast(table, "float32")
    end = first + old * old
    grid = table[:, first:end]
    if resizing == "nearest":
        grid = copy(grid, nearest_on_grid(old, new), axis=1)
    else:
        width = grid.shape[2]
        # Without antialiasing, the bicubic filters of the backends differ.
        options = dict(interpolation="bicubic", antialias=True, data_format="channels_last")
        grid = ops.image.resize(ops.reshape(grid, (1, old, old, width)), (new, new), **options)
        grid = ops.reshape(grid, (1, new * new, width))
    return ops.concatenate([table[:, :first], grid, table[:, end:]], axis=1)


def _extra_rows(layer):
    """Return the number of rows before and after the grid."""
    first = int(layer.use_class_token)
    return first, int(layer.keep_unused and not first)
