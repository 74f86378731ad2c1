"""Define the block of Graphormer, with attention or sorting, and its mixers."""

from typing import Any

import keras
from keras import ops

from keras_permix._typing import Mask, Shape, Tensor
from keras_permix.layers.mixing.slice_sort import ORDERS, descending_channels
from keras_permix.layers.parts.masks import clean_padding, masked_softmax
from keras_permix.layers.parts.wrappers import Composite, make_dropout
from keras_permix.ops import slice_sort
from keras_permix.utils.checks import check_named


@keras.saving.register_keras_serializable("keras_permix")
class GraphAttention(Composite):
    """Attend to nodes with a bias, as the mixer of `GraphormerBlock`, and project the output.

    Computes `softmax(query keyᵀ / sqrt(head_dim) + bias) value` per head, with the bias
    `(batch, num_heads, tokens, tokens)`. All four projections have biases. In a query without
    visible keys, -inf in the bias counts as 0.
    """

    projections: tuple[str, ...] = ("query", "key", "value", "output")

    def __init__(
        self, num_heads: int = 8, dropout: float = 0.0, num_layers: int = 1, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self._store(locals())

    def build(self, tokens_shape, bias_shape):
        width = self._tokens_shape(tokens_shape, maps=False)[-1]
        if width % self.num_heads:
            rule = f"`num_heads` must divide the width {width} of the tokens."
            raise ValueError(f"{rule} Received: num_heads={self.num_heads}")
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
        query = query * query.shape[-1] ** -0.5
        return ops.einsum("bqhd,bkhd->bhqk", query, key) + bias

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
        num_heads: int = 8,
        dropout: float = 0.0,
        num_layers: int = 1,
        mode: str = "paper",
        order: str = "ascend",
        layer_index: int = 0,
        **kwargs: Any,
    ) -> None:
        super().__init__(num_heads, dropout, num_layers, **kwargs)
        self._store(locals(), mode=("paper", "release"), order=ORDERS)

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


MIXERS = {"attention": GraphAttention, "slice_sort": GraphSliceSort}


@keras.saving.register_keras_serializable("keras_permix")
class GraphormerBlock(Composite):
    """Mix the nodes of graphs with a bias, then channels, in a pre-norm block.

    Computes `x = x + dropout(mixer(norm(x), bias))`, then
    `x = x + dropout(dense(gelu(dense(norm(x)))))`.

    Input: tokens `(batch, nodes + 1, channels)`, the virtual node first, and the bias
    `(batch, num_heads, nodes + 1, nodes + 1)` of `GraphormerBias`. Output: the shape of the tokens.
    A mask `(batch, nodes + 1)`, propagated by Keras or passed as `tokens_mask`, is True at real
    tokens. Padding is neither attended to nor sorted. Without a mask, tokens whose column of the
    bias is -inf count as padding. A query without visible keys attends as if nothing were masked.

    Args:
        num_heads: Number of heads. It must divide the number of channels.
        mlp_dim: Hidden width of the channel mixer. Defaults to the number of channels.
        mixer: "attention", "slice_sort" (without queries and keys), or a dict with this `"name"`.
            For "slice_sort" the dict accepts `"mode"` and `"order"` (see `SliceSort`). Mode
            "paper" sorts the values mixed by the softmax of the bias, and "release" adds sorted
            values to them.
        dropout: Rate of the dropouts after the mixer and after the channel mixer.
        attention_dropout: Rate of the dropout on the attention map.
        epsilon: Epsilon of the layer normalizations.
        layer_index: Index of this layer, from 0, used by the interleaved orders.
        num_layers: Number of layers of the model. Kernels are initialized with a standard deviation
            of 0.02 / sqrt(num_layers).

    Raises:
        ValueError: for an argument out of range, an unknown mixer, or channels that `num_heads`
            does not divide.

    Example:
        >>> import numpy as np
        >>> from keras_permix.layers import GraphormerBlock
        >>> tokens, bias = np.ones((2, 6, 32), "float32"), np.zeros((2, 4, 6, 6), "float32")
        >>> tuple(GraphormerBlock(num_heads=4, mixer="slice_sort")(tokens, bias).shape)
        (2, 6, 32)

    Reference: Ying et al., "Graphormer", 2021, arXiv:2106.05234. Yuan & Xu, "Sliceformer", 2023,
    arXiv:2310.17683 and the released code.
    """

    def __init__(
        self,
        num_heads: int = 8,
        mlp_dim: int | None = None,
        mixer: str | dict[str, Any] = "attention",
        dropout: float = 0.0,
        attention_dropout: float = 0.0,
        epsilon: float = 1e-5,
        layer_index: int = 0,
        num_layers: int = 1,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.mixer_spec = check_named("mixer", mixer, MIXERS)
        del mixer
        self._store(locals())
        self.mixer = self._make_mixer()

    def _make_mixer(self):
        arguments = dict(self.mixer_spec)
        mixer = MIXERS[arguments.pop("name")]
        ours = dict(
            num_heads=self.num_heads, dropout=self.attention_dropout, num_layers=self.num_layers
        )
        if mixer is GraphSliceSort:
            ours["layer_index"] = self.layer_index
        return mixer(**ours, **arguments, dtype=self.dtype_policy, name="mixer")

    def build(self, tokens_shape: Shape, bias_shape: Shape) -> None:
        width, policy = tokens_shape[-1], self.dtype_policy
        hidden, stddev = self.mlp_dim or width, initial_stddev(self.num_layers)
        self.mixer.build(tokens_shape, bias_shape)
        self.mixer_norm = self._norm("mixer_norm", tokens_shape)
        self.mlp_norm = self._norm("mlp_norm", tokens_shape)
        self.mlp_in = self._dense("mlp_in", hidden, tokens_shape, "gelu", stddev)
        self.mlp_out = self._dense("mlp_out", width, (*tokens_shape[:-1], hidden), stddev=stddev)
        self.mixer_dropout = make_dropout(self.dropout, dtype=policy)
        self.mlp_dropout = make_dropout(self.dropout, dtype=policy)

    def call(self, tokens: Tensor, bias: Tensor, tokens_mask: Mask = None) -> Tensor:
        mixed = self.mixer(self.mixer_norm(tokens), bias, tokens_mask=tokens_mask)
        tokens = tokens + self.mixer_dropout(mixed)
        hidden = self.mlp_in(self.mlp_norm(tokens))
        return tokens + self.mlp_dropout(self.mlp_out(hidden))

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "mixer": self.mixer_spec}


def initial_stddev(num_layers):
    """Return the standard deviation of the initial kernels of Graphormer."""
    return 0.02 * num_layers**-0.5
