"""Nodes of graphs as tokens."""

from typing import Any

import keras
from keras import ops

from keras_permix._typing import Shape, Tensor
from keras_permix.layers.graph.graphormer_bias import ROWS, look_up
from keras_permix.layers.parts.composite import Composite
from keras_permix.layers.parts.masks import with_first
from keras_permix.utils.checks import check_integer

AXES = {"x": 3, "in_degree": 2, "out_degree": 2}


@keras.saving.register_keras_serializable("keras_permix")
class GraphEmbedding(Composite):
    """Embed the nodes of graphs by their features and degrees, behind a virtual node.

    Input: a dict of arrays as `keras_permix.data.pad_graphs` makes them, 0 for padding; what it
    holds besides is not looked at:

    * "x", `(batch, nodes, node_features)`, numbers of one table for all features;
    * "in_degree" and "out_degree", `(batch, nodes)`, degree + 1.

    Output: `(batch, nodes + 1, width)`, the learned virtual node first. Its Keras mask is True at
    real nodes and at the virtual one.

    Args:
        hidden_dim: Channels per token.

    Raises:
        ValueError: for an argument out of range, or arrays missing from the dict.

    Example:

    >>> import numpy as np
    >>> from keras_permix.layers import GraphEmbedding
    >>> degree = np.array([[2, 2, 0]])
    >>> graphs = {"x": np.array([[[8], [3], [0]]]), "in_degree": degree, "out_degree": degree}
    >>> tuple(GraphEmbedding(hidden_dim=16)(graphs).shape)
    (1, 4, 16)

    Source: Ying et al., "Do Transformers Really Perform Badly for Graph Representation?", 2021,
    section 3.1.1, and the released code.
    """

    def __init__(self, hidden_dim: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.supports_masking = True
        self.hidden_dim = check_integer("hidden_dim", hidden_dim)

    def build(self, input_shape: dict[str, Shape]) -> None:
        shapes = input_shape if isinstance(input_shape, dict) else {}
        wrong = any(len(shapes.get(name, ())) != axes for name, axes in AXES.items())
        if wrong or shapes["x"][-1] is None:
            raise ValueError(
                f"`graphs` must be a dict of the arrays {list(AXES)} with {list(AXES.values())} "
                f"axes, of known features. Received: {input_shape}"
            )
        rows = {"feature_table": ROWS * shapes["x"][-1] + 1, "virtual_node": 1}
        rows |= {"in_degree_table": ROWS, "out_degree_table": ROWS}
        initializer = keras.initializers.RandomNormal(stddev=0.02)
        for name, count in rows.items():
            shape = (count, self.hidden_dim)
            setattr(self, name, self.add_weight(shape=shape, initializer=initializer, name=name))

    def call(self, graphs: dict[str, Tensor]) -> Tensor:
        nodes = ops.sum(look_up(self.feature_table, graphs["x"]), axis=2)
        nodes = nodes + look_up(self.in_degree_table, graphs["in_degree"])
        nodes = nodes + look_up(self.out_degree_table, graphs["out_degree"])
        shape = (ops.shape(nodes)[0], 1, self.hidden_dim)
        virtual = ops.broadcast_to(ops.cast(self.virtual_node, nodes.dtype), shape)
        return ops.concatenate([virtual, nodes], axis=1)

    def compute_mask(self, graphs: dict[str, Tensor], mask: Any = None) -> Tensor:
        return with_first(ops.any(graphs["x"] > 0, axis=-1))

    def compute_output_shape(self, input_shape: dict[str, Shape]) -> Shape:
        batch, nodes, _ = input_shape["x"]
        return (batch, None if nodes is None else nodes + 1, self.hidden_dim)

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "hidden_dim": self.hidden_dim}
