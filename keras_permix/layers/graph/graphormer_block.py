"""Define the block of Graphormer, with attention or sorting."""

from typing import Any

import keras

from keras_permix._typing import Mask, Shape, Tensor
from keras_permix.layers.graph.graph_mixers import GraphAttention, GraphSliceSort, initial_stddev
from keras_permix.layers.parts.wrappers import Composite, make_dropout, part_arguments
from keras_permix.utils.checks import (
    check_layer_index,
    check_named,
    check_names,
    check_positive,
    check_positive_or_none,
    check_rate,
)

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
        ValueError: for an argument out of range, an unknown mixer, channels that `num_heads` does
            not divide, or a bias with another number of heads.

    Example:

    >>> import numpy as np
    >>> from keras_permix.layers import GraphormerBlock
    >>> tokens, bias = np.ones((2, 6, 32), "float32"), np.zeros((2, 4, 6, 6), "float32")
    >>> tuple(GraphormerBlock(num_heads=4, mixer="slice_sort")(tokens, bias).shape)
    (2, 6, 32)

    Reference:
        Ying et al., "Do Transformers Really Perform Badly for Graph Representation?", 2021,
        arXiv:2106.05234.
        Yuan and Xu, "Sliceformer: Make Multi-head Attention as Simple as Sorting in
        Discriminative Tasks", 2023, arXiv:2310.17683 and the released code.
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
        self.num_heads = num_heads
        self.mlp_dim = check_positive_or_none("mlp_dim", mlp_dim)
        self.mixer_spec = check_named("mixer", mixer, MIXERS)
        self.dropout = check_rate("dropout", dropout)
        self.attention_dropout = check_rate("attention_dropout", attention_dropout)
        self.epsilon = check_positive("epsilon", epsilon)
        self.layer_index, self.num_layers = check_layer_index(layer_index, num_layers)
        self.mixer = self._make_mixer()

    def _make_mixer(self):
        arguments = dict(self.mixer_spec)
        name = arguments.pop("name")
        ours = dict(
            num_heads=self.num_heads, dropout=self.attention_dropout, num_layers=self.num_layers
        )
        if name == "slice_sort":
            ours["layer_index"] = self.layer_index
        mixer = MIXERS[name]
        check_names(f"The `mixer` {name}", arguments, part_arguments(mixer) - ours.keys())
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
