"""Embed graphs: nodes as tokens, distances and edges as a bias of attention."""

from typing import Any

import keras
from keras import ops

from keras_permix._typing import Shape, Tensor
from keras_permix.layers.embedding.positions import prepend
from keras_permix.layers.parts.masks import with_first
from keras_permix.layers.parts.wrappers import Composite

ROWS = 512  # rows of each table of degrees, distances, or one feature of nodes or edges


@keras.saving.register_keras_serializable("keras_permix")
class GraphEmbedding(Composite):
    """Embed the nodes of graphs by features and degrees, and prepend a virtual node.

    Input: a dict of arrays from `keras_permix.data.pad_graphs`, 0 for padding. Other keys are
    ignored.

    * "x", `(batch, nodes, node_features)`, indices into one table for all features;
    * "in_degree" and "out_degree", `(batch, nodes)`, degree + 1.

    Output: `(batch, nodes + 1, hidden_dim)`, the learned virtual node first. Its Keras mask is True
    at real nodes and at the virtual node.

    Args:
        hidden_dim: Channels per token.

    Example:
        >>> import numpy as np
        >>> from keras_permix.layers import GraphEmbedding
        >>> degree = np.array([[2, 2, 0]])
        >>> graphs = {"x": np.array([[[8], [3], [0]]]), "in_degree": degree, "out_degree": degree}
        >>> tuple(GraphEmbedding(hidden_dim=16)(graphs).shape)
        (1, 4, 16)

    Reference: Ying et al., "Graphormer", 2021, arXiv:2106.05234, section 3.1.1, and the released
    code.
    """

    def __init__(self, hidden_dim: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._store(locals())

    def build(self, input_shape: dict[str, Any]) -> None:
        rows = {"feature_table": ROWS * input_shape["x"][-1] + 1, "virtual_node": 1}
        rows |= {"in_degree_table": ROWS, "out_degree_table": ROWS}
        for name, count in rows.items():
            normal = keras.initializers.RandomNormal(stddev=0.02)
            setattr(self, name, self.add_weight((count, self.hidden_dim), normal, name=name))

    def call(self, graphs: dict[str, Tensor]) -> Tensor:
        nodes = ops.sum(look_up(self.feature_table, graphs["x"]), axis=2)
        nodes = nodes + look_up(self.in_degree_table, graphs["in_degree"])
        nodes = nodes + look_up(self.out_degree_table, graphs["out_degree"])
        return prepend(self.virtual_node, nodes)

    def compute_mask(self, graphs: dict[str, Tensor], mask: Any = None) -> Tensor:
        return with_first(ops.any(graphs["x"] > 0, axis=-1))

    def compute_output_shape(self, input_shape: dict[str, Shape]) -> Shape:
        batch, nodes, _ = input_shape["x"]
        return (batch, None if nodes is None else nodes + 1, self.hidden_dim)


EDGES = {"multi_hop": "edge_input", "single": "attn_edge_type"}


@keras.saving.register_keras_serializable("keras_permix")
class GraphormerBias(Composite):
    """Compute the attention bias between the nodes of graphs, one per head.

    The bias between two nodes is the sum of a learned scalar for their distance and one for the
    edges on the shortest path between them. The bias of the virtual node, token 0, is one learned
    scalar. The bias is -inf if a token must not attend to another. All layers of a model share one
    bias.

    Input: a dict of arrays from `keras_permix.data.pad_graphs`, 0 for padding. Other keys are
    ignored.

    * "attn_bias", `(batch, nodes + 1, nodes + 1)`, 0 or -inf;
    * "spatial_pos", `(batch, nodes, nodes)`, distance + 1;
    * "edge_input", `(batch, nodes, nodes, hops, edge_features)`, with "multi_hop" edges;
    * "attn_edge_type", `(batch, nodes, nodes, edge_features)`, with "single" edges.

    Output: `(batch, num_heads, nodes + 1, nodes + 1)`.

    Args:
        num_heads: Number of heads.
        edges: "multi_hop" (the mean over the edges of the path, with a matrix per hop) or "single"
            (only the edge between the two nodes).
        max_hops: Number of edges of a path to use. Longer paths use their first `max_hops`
            edges, and the sum is divided by `max_hops`.
        hop_tables: Number of matrices to create, at least `max_hops`. Only the first `max_hops` are
            used. Defaults to `max_hops`. The released code creates 128.

    Raises:
        ValueError: for an argument out of range.

    Example:
        >>> import numpy as np
        >>> from keras_permix.layers import GraphormerBias
        >>> pair = {"attn_bias": np.zeros((1, 3, 3)), "spatial_pos": np.array([[[1, 2], [2, 1]]])}
        >>> pair["attn_edge_type"] = np.array([[[[0], [7]], [[7], [0]]]])
        >>> tuple(GraphormerBias(num_heads=4, edges="single")(pair).shape)
        (1, 4, 3, 3)

    Reference: Ying et al., "Graphormer", 2021, arXiv:2106.05234, sections 3.1.2 and 3.1.3, and the
    released code.
    """

    def __init__(
        self,
        num_heads: int = 8,
        edges: str = "multi_hop",
        max_hops: int = 5,
        hop_tables: int | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.supports_masking = False
        self._store(locals(), edges=EDGES)
        if hop_tables is not None and hop_tables < max_hops:
            raise ValueError(f"`hop_tables` must be at least {max_hops=}. Received: {hop_tables=}")

    def build(self, input_shape: dict[str, Any]) -> None:
        edge_features, heads = input_shape[EDGES[self.edges]][-1], self.num_heads
        self.distance_table = self._table("distance_table", (ROWS, heads))
        self.virtual_distance = self._table("virtual_distance", (1, heads))
        self.edge_table = self._table("edge_table", (ROWS * edge_features + 1, heads))
        if self.edges == "multi_hop":
            shape = (self.hop_tables or self.max_hops, heads, heads)
            self.hop_table = self._table("hop_table", shape)

    def _table(self, name, shape):
        initializer = keras.initializers.RandomNormal(stddev=0.02)
        return self.add_weight(shape=shape, initializer=initializer, name=name)

    def call(self, graphs: dict[str, Tensor]) -> Tensor:
        distance = graphs["spatial_pos"]
        if self.edges == "multi_hop":
            edges = self._path_bias(graphs["edge_input"], distance)
        else:
            edges = look_up(self.edge_table, graphs["attn_edge_type"])
            # On PyTorch, `mean` would compute float64 in float32.
            edges = ops.sum(edges, axis=3) / edges.shape[3]
        among_nodes = look_up(self.distance_table, distance) + edges
        bias = self._add_virtual_node(ops.transpose(among_nodes, (0, 3, 1, 2)))
        return bias + 2 * graphs["attn_bias"][:, None]  # twice, as in the released code

    def _path_bias(self, paths, distance):
        """Return `sum_t mean_f(edge_table[paths[t, f]]) @ hop_table[t] / length`."""
        if paths.shape[3] is None:  # compiled for any number of hops
            paths = ops.pad(paths, (*[(0, 0)] * 3, (0, self.max_hops), (0, 0)))
            paths = paths[:, :, :, : self.max_hops]
        hops, features = min(self.max_hops, paths.shape[3] or self.max_hops), paths.shape[4]
        # Multiply the tables before the look-up: they have fewer rows than the paths have edges.
        tables = ops.matmul(self.edge_table, self.hop_table[:hops])
        parts = [
            look_up(tables[hop], paths[..., hop, feature])
            for hop in range(hops)
            for feature in range(features)
        ]
        length = ops.clip(distance - 1, 1, self.max_hops)[..., None] * features
        return sum(parts) / ops.cast(length, self.compute_dtype)

    def _add_virtual_node(self, among_nodes):
        is_node = ops.arange(0, ops.shape(among_nodes)[2] + 1) > 0
        both = ops.logical_and(is_node[:, None], is_node[None, :])
        padded = ops.pad(among_nodes, ((0, 0), (0, 0), (1, 0), (1, 0)))
        return ops.where(both, padded, self.virtual_distance[0][:, None, None])

    def compute_output_shape(self, input_shape: dict[str, Shape]) -> Shape:
        batch, tokens, _ = input_shape["attn_bias"]
        return (batch, self.num_heads, tokens, tokens)


def look_up(table, numbers):
    """Return rows of a table; row 0 stands for padding and is always zero."""
    if keras.backend.is_float_dtype(numbers.dtype):  # which may have been rounded
        rule = "Graphs must hold integers, except for `attn_bias`"
        raise ValueError(f"{rule}. Received: dtype={numbers.dtype}, shape={tuple(numbers.shape)}")
    return ops.take(ops.pad(table[1:], ((1, 0), (0, 0))), numbers, axis=0)
