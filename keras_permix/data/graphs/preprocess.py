"""Shortest paths of a graph, and its features as numbers of one table."""

from collections.abc import Sequence

import numpy as np

from keras_permix.data.graphs.pad import UNREACHABLE

TABLE = 512  # values of one feature
LARGEST = TABLE - 2


def preprocess_graph(
    nodes: np.ndarray | Sequence[Sequence[int]],
    edges: np.ndarray | Sequence[Sequence[int]],
    edge_features: int | None = None,
) -> dict[str, np.ndarray]:
    """Turn a graph into the arrays that `pad_graphs` takes.

    Feature f of value v becomes `1 + 512 f + v`, so that all features share one table; an edge's
    gets 1 more, since 0 is "no edge". Edges are undirected and of length 1.

    Args:
        nodes: int array `(nodes, node_features)`, values 0 … 510.
        edges: int array `(edges, 2 + edge_features)`: the two nodes, then the edge's features;
            without any, all edges get one feature 0.
        edge_features: Number of an edge's features, needed where there is no edge. `None`: what
            `edges` has.

    Returns:
        A dict of "x", "in_degree", "spatial_pos", "attn_edge_type" and "edge_input".

    Raises:
        ValueError: for arrays of another shape, or values out of range.

    Example:

    >>> from keras_permix.data import preprocess_graph
    >>> water = preprocess_graph([[8], [1], [1]], [[0, 1], [0, 2]])
    >>> water["spatial_pos"].tolist()
    [[0, 1, 1], [1, 0, 2], [1, 2, 0]]

    Source: Ying et al., "Do Transformers Really Perform Badly for Graph Representation?", 2021,
    and the released code.
    """
    nodes = np.asarray(nodes, "int64")
    width = 2 + (edge_features or 0)
    edges = np.asarray(edges, "int64").reshape(len(edges), -1 if len(edges) else width)
    _check(nodes, edges, edge_features)
    pairs, values = edges[:, :2], edges[:, 2:]
    if not values.shape[1]:
        values = np.zeros((len(edges), 1), "int64")
    edge_type = np.zeros((len(nodes), len(nodes), values.shape[1]), "int64")
    edge_type[pairs[:, 0], pairs[:, 1]] = edge_type[pairs[:, 1], pairs[:, 0]] = 1 + _ids(values)
    joined = edge_type.any(-1)
    distance, between = shortest_paths(joined)
    return {
        "x": _ids(nodes),
        "in_degree": joined.sum(1),
        "spatial_pos": distance,
        "attn_edge_type": edge_type,
        "edge_input": _edges_on_paths(distance, between, edge_type),
    }


def shortest_paths(joined):
    """Distances in edges, and a node between each two on their path, -1 for none.

    Floyd's algorithm: the first node that makes a path shorter is kept.
    """
    nodes = len(joined)
    distance = np.where(joined, 1, UNREACHABLE)
    np.fill_diagonal(distance, 0)
    between = np.full((nodes, nodes), -1)
    for node in range(nodes):
        through = distance[:, node, None] + distance[node]
        shorter = through < distance
        between[shorter] = node
        distance = np.where(shorter, through, distance)
    return np.minimum(distance, UNREACHABLE), between


def _edges_on_paths(distance, between, edge_type):
    nodes = len(distance)
    reached = distance < UNREACHABLE
    hops = max(int(distance[reached].max(initial=0)), 1)
    on_paths = np.full((nodes, nodes, hops, edge_type.shape[-1]), -1)
    for start, end in zip(*np.nonzero(reached & (distance > 0)), strict=True):
        path = [start, *_inner(between, start, end), end]
        for hop, (a, b) in enumerate(zip(path, path[1:], strict=False)):
            on_paths[start, end, hop] = edge_type[a, b]
    return on_paths


def _inner(between, start, end):
    """The nodes between two nodes on their path."""
    node = between[start, end]
    if node < 0:
        return []
    return [*_inner(between, start, node), node, *_inner(between, node, end)]


def _ids(values):
    return 1 + TABLE * np.arange(values.shape[1]) + values


def _check(nodes, edges, edge_features):
    if nodes.ndim != 2 or not nodes.size or edges.ndim != 2 or edges.shape[1] < 2:
        raise ValueError(
            "`nodes` must be (nodes, node_features), and `edges` (edges, 2 + edge_features). "
            f"Received: shapes {nodes.shape} and {edges.shape}"
        )
    if edge_features is not None and max(edges.shape[1] - 2, 1) != max(edge_features, 1):
        raise ValueError(
            f"`edges` must have `edge_features` features. Received: {edges.shape[1] - 2} features, "
            f"edge_features={edge_features}"
        )
    values = np.concatenate([nodes.ravel(), edges[:, 2:].ravel()])
    ends = edges[:, :2]
    if values.min() < 0 or values.max() > LARGEST or (ends < 0).any() or (ends >= len(nodes)).any():
        raise ValueError(
            f"Features must be 0 … {LARGEST}, and the ends of an edge numbers of nodes. "
            f"Received: features {values.min()} … {values.max()}, {len(nodes)} nodes, edges "
            f"between {ends.tolist()[:8]}"
        )
