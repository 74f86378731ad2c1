"""Define the token mixers of `GraphormerBlock`, which take the bias of the graph."""

import keras
from keras import ops

from keras_permix.layers.mixing.slice_sort import ORDERS, order_to_descending
from keras_permix.layers.parts.masks import clean_padding, masked_softmax
from keras_permix.layers.parts.wrappers import (
    Composite,
    Dense,
    check_tokens,
    make_dropout,
)
from keras_permix.ops import slice_sort
from keras_permix.utils.checks import check_choice, check_integer, check_rate

MODES = ("paper", "release")


@keras.saving.register_keras_serializable("keras_permix")
class GraphAttention(Composite):
    """Attend to nodes with a bias, and project the output.

    Computes `softmax(query keyᵀ / sqrt(head_dim) + bias) value` per head. All four projections have
    biases.

    Input: tokens `(batch, tokens, channels)` and bias `(batch, num_heads, tokens, tokens)`, -inf
    where the query of a row may not attend to the key of a column. Output: the shape of the tokens.
    A mask `(batch, tokens)` is True at real tokens. Padding is never attended to. A query without
    visible keys attends as if nothing were masked, with 0 instead of -inf.

    Args:
        num_heads: Number of heads. It must divide the number of channels.
        dropout: Rate of the dropout on the attention map.
        num_layers: Number of layers of the model. Kernels are initialized with a standard deviation
            of 0.02 / sqrt(num_layers).

    Raises:
        ValueError: for an argument out of range, channels that `num_heads` does not divide, or a
            bias with another number of heads.

    Example:

    >>> import numpy as np
    >>> from keras_permix.layers.graph.graph_mixers import GraphAttention
    >>> tokens, bias = np.ones((2, 6, 32), "float32"), np.zeros((2, 4, 6, 6), "float32")
    >>> tuple(GraphAttention(num_heads=4)(tokens, bias).shape)
    (2, 6, 32)

    Reference:
        Ying et al., "Do Transformers Really Perform Badly for Graph Representation?", 2021,
        arXiv:2106.05234.
    """

    projections: tuple[str, ...] = ("query", "key", "value", "output")

    def __init__(self, num_heads=8, dropout=0.0, num_layers=1, **kwargs):
        super().__init__(**kwargs)
        self.supports_masking = True
        self.num_heads = check_integer("num_heads", num_heads)
        self.dropout = check_rate("dropout", dropout)
        self.num_layers = num_layers

    def build(self, tokens_shape, bias_shape):
        width = check_tokens(type(self).__name__, tokens_shape)[-1]
        if width % self.num_heads:
            raise ValueError(
                "`num_heads` must divide the width of the tokens. "
                f"Received: num_heads={self.num_heads}, tokens.shape={tuple(tokens_shape)}"
            )
        if len(bias_shape) != 4 or bias_shape[1] not in (None, self.num_heads):
            raise ValueError(
                "`bias` must have the shape (batch, num_heads, tokens, tokens). "
                f"Received: bias.shape={tuple(bias_shape)}, num_heads={self.num_heads}"
            )
        for name in self.projections:
            dense = make_dense(width, self.num_layers, dtype=self.dtype_policy, name=name)
            dense.build(tokens_shape)
            setattr(self, f"{name}_dense", dense)
        self.map_dropout = make_dropout(self.dropout, dtype=self.dtype_policy)

    def call(self, tokens, bias, tokens_mask=None):
        tokens = clean_padding(tokens, tokens_mask)
        values = self.value_dense(tokens)
        weights = self.map_dropout(self.attention_maps(tokens, bias, tokens_mask))
        mixed = self.average(weights, values)
        return self.output_dense(self.finish(mixed, values, tokens_mask, bias))

    def average(self, weights, values):
        """Return the means of the values, weighted per head."""
        mixed = ops.einsum("bhqk,bkhd->bqhd", weights, self.split_heads(values))
        return ops.reshape(mixed, ops.shape(values))

    def attention_maps(self, tokens, bias, tokens_mask=None):
        """Return the attention weights `(batch, heads, tokens, tokens)`."""
        allowed = bias > -float("inf")
        scores = self.scores(tokens, ops.where(allowed, bias, ops.zeros_like(bias)))
        if tokens_mask is not None:
            allowed = ops.logical_and(allowed, ops.cast(tokens_mask, "bool")[:, None, None, :])
        return masked_softmax(scores, allowed)

    def scores(self, tokens, bias):
        """Return the scores before the softmax."""
        query = self.split_heads(self.query_dense(tokens))
        key = self.split_heads(self.key_dense(tokens))
        return ops.einsum("bqhd,bkhd->bhqk", query, key) * query.shape[-1] ** -0.5 + bias

    def finish(self, mixed, values, mask, bias):
        """Process the mixed values before the output projection."""
        return mixed

    def split_heads(self, x):
        """Reshape `(batch, tokens, channels)` to `(batch, tokens, heads, head_dim)`."""
        batch, tokens, channels = ops.shape(x)
        return ops.reshape(x, (batch, tokens, self.num_heads, channels // self.num_heads))


@keras.saving.register_keras_serializable("keras_permix")
class GraphSliceSort(GraphAttention):
    """Sort every channel and mix by the bias only, without queries and keys.

    With `mixed = softmax(bias) value` per head, the output projection receives

    * `sort(mixed)` with `mode="paper"`,
    * `mixed + sort(value)` with `mode="release"`, as in the released code.

    All real tokens are sorted, including the virtual node. Without a mask, tokens that no query may
    attend to count as padding.

    Args:
        num_heads, dropout, num_layers: See `GraphAttention`.
        mode: "paper" or "release".
        order: "ascend", "descend", "interleave" or "interleave_haar"; see `SliceSort`.
        layer_index: Index of this layer, from 0, used by the interleaved orders.

    Raises:
        ValueError: as `GraphAttention`, and for an unknown `mode` or `order`.

    Example:

    >>> import numpy as np
    >>> from keras_permix.layers.graph.graph_mixers import GraphSliceSort
    >>> tokens, bias = np.ones((2, 6, 32), "float32"), np.zeros((2, 4, 6, 6), "float32")
    >>> tuple(GraphSliceSort(num_heads=4)(tokens, bias).shape)
    (2, 6, 32)

    Reference:
        Yuan and Xu, "Sliceformer: Make Multi-head Attention as Simple as Sorting in
        Discriminative Tasks", 2023, arXiv:2310.17683 and the released code.
    """

    projections = ("value", "output")

    def __init__(
        self,
        num_heads=8,
        dropout=0.0,
        num_layers=1,
        mode="paper",
        order="ascend",
        layer_index=0,
        **kwargs,
    ):
        super().__init__(num_heads=num_heads, dropout=dropout, num_layers=num_layers, **kwargs)
        self.mode = check_choice("mode", mode, MODES)
        self.order = check_choice("order", order, ORDERS)
        self.layer_index = layer_index

    def scores(self, tokens, bias):
        return bias

    def finish(self, mixed, values, mask, bias):
        if self.mode == "paper":
            return self.sort(mixed, mask, bias)
        return mixed + self.sort(values, mask, bias)

    def sort(self, x, mask, bias):
        """Sort the channels of `(batch, tokens, channels)` over the real tokens."""
        if mask is None:
            seen = ops.any(bias > -float("inf"), axis=(1, 2))
            mask = ops.broadcast_to(seen, ops.shape(x)[:2])  # The batch axis of `bias` may be 1.
        return slice_sort(x, self.descending(x.shape[-1]), mask=mask)

    def descending(self, channels):
        """Return whether to sort descending, as a bool or a bool array `(channels,)`."""
        facts = dict(
            layer_index=self.layer_index,
            num_layers=self.num_layers,
            head_dim=channels // self.num_heads,
        )
        return order_to_descending(self.order, channels, **facts)


def make_dense(units, num_layers, activation=None, **kwargs):
    """Make a dense layer that is initialized as in Graphormer."""
    initializer = keras.initializers.RandomNormal(stddev=0.02 * num_layers**-0.5)
    return Dense(units, activation, kernel_initializer=initializer, **kwargs)
