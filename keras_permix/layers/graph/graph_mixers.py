"""Define the token mixers of `GraphormerBlock`, which take the bias of the graph."""

import keras
from keras import ops

from keras_permix.layers.mixing.slice_sort import ORDERS, descending_channels
from keras_permix.layers.parts.masks import clean_padding, masked_softmax
from keras_permix.layers.parts.wrappers import Composite, make_dropout
from keras_permix.ops import slice_sort
from keras_permix.utils.checks import check_choice, check_integer, check_rate

MODES = ("paper", "release")


@keras.saving.register_keras_serializable("keras_permix")
class GraphAttention(Composite):
    """Attend to nodes with a bias, as the mixer of `GraphormerBlock`, and project the output.

    Computes `softmax(query keyᵀ / sqrt(head_dim) + bias) value` per head, with the bias
    `(batch, num_heads, tokens, tokens)`. All four projections have biases. In a query without
    visible keys, -inf in the bias counts as 0.
    """

    projections: tuple[str, ...] = ("query", "key", "value", "output")

    def __init__(self, num_heads=8, dropout=0.0, num_layers=1, **kwargs):
        super().__init__(**kwargs)
        self.num_heads = check_integer("num_heads", num_heads)
        self.dropout = check_rate("dropout", dropout)
        self.num_layers = num_layers

    def build(self, tokens_shape, bias_shape):
        width = self._tokens_shape(tokens_shape, maps=False)[-1]
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
        stddev = initial_stddev(self.num_layers)
        for name in self.projections:
            setattr(self, f"{name}_dense", self._dense(name, width, tokens_shape, stddev=stddev))
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

    With `mixed = softmax(bias) value` per head, the output projection receives `sort(mixed)` with
    `mode="paper"`, and `mixed + sort(value)` with `mode="release"`. All real tokens are sorted,
    including the virtual node.
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
        channels = x.shape[-1]
        descending = descending_channels(self, channels, channels // self.num_heads)
        return slice_sort(x, descending, mask=mask)


def initial_stddev(num_layers):
    """Return the standard deviation of the initial kernels of Graphormer."""
    return 0.02 * num_layers**-0.5
